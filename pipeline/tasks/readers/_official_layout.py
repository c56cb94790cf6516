"""Base of the readers of official layouts of labeled rows: each specifies columns and classes, and opens its files."""

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from clozeline.pipeline.tasks.readers import Row, Unfit
from clozeline.pipeline.tasks.readers._task_items import GROUP
from clozeline.pipeline.tasks.readers.labelled import Labelled


def numbered(labels: Sequence[str], *, by_name: bool = True) -> dict[str, str]:
    """Return the class of each value of a column that names classes, or counts them from 0 as exports do.

    Example:
        >>> numbered(["no", "yes"])
        {'0': 'no', 'no': 'no', '1': 'yes', 'yes': 'yes'}
    """
    return {
        value: label
        for number, label in enumerate(labels)
        for value in ((str(number), label) if by_name else (str(number),))
    }


class OfficialLayout(Labelled):
    """Base of the readers of official layouts: their `spec` names the columns and classes that their files have."""

    unit: ClassVar[str] = "line"
    has_parts: ClassVar[bool] = False
    hint: ClassVar[str] = ""

    @cached_property
    @abstractmethod
    def spec(self) -> Labelled.Options:
        """Columns and classes of the task."""

    def group_of(self, row: Row) -> str | None:
        return row.get(GROUP)

    def texts_of(self, row: Row) -> tuple[str, ...]:
        """Return the text or both texts of a row, as they stand."""
        names = (*self.spec.text, *self.spec.text_pair)
        texts = tuple(text for name in names if isinstance(text := row.get(name), str))
        if len(texts) < len(names):
            raise Unfit("fields")
        if not all(text.strip() for text in texts):
            raise Unfit("empty_text")
        return texts
