"""Base of the readers of official layouts, whose files need no column names."""

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from clozeline.extensions.tasks.readers import Rejected, Row, TaskItem, Unfit
from clozeline.extensions.tasks.readers._task_items import GROUP
from clozeline.extensions.tasks.readers.labeled import LabeledReader


class OfficialLayout(LabeledReader):
    """Base of the readers of official layouts.

    `spec` has the columns and classes of their files.
    """

    unit = "line"
    has_parts = False
    hint = ""

    @cached_property
    @abstractmethod
    def spec(self) -> LabeledReader.Options:
        """Columns and classes of the task."""

    def read_unlabeled(self, path: Path) -> Iterator[tuple[TaskItem | Rejected, Any]] | None:
        return self.read_with_placeholders(path, self.build_unlabeled)

    def group_of(self, row: Row) -> str | None:
        return row.get(GROUP)

    def texts_of(self, row: Row) -> tuple[str, ...]:
        """Return the text or both texts of a row, unchanged."""
        names = (*self.spec.text, *self.spec.text_pair)
        texts = tuple(text for name in names if isinstance(text := row.get(name), str))
        if len(texts) < len(names):
            raise Unfit("fields")
        if not all(text.strip() for text in texts):
            raise Unfit("empty_text")
        return texts
