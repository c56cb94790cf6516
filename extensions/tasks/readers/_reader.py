"""Base of task readers, and the metadata of a task in manifests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.readers._task_items import GROUP, TaskItem, Unfit, list_item_texts
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.shards.manifest import ObjectiveRecord
from clozeline.pipeline.tables import Rejected, Row, RowFile, attach_texts, normalize_row
from clozeline.pipeline.text.normal_form import NormalForm
from clozeline.pipeline.tokenize.tokenizers import Tokenizer

TASK: Final = "task"
"""Objective name in the manifests of task sets."""
KEYS: Final = "tasks.reader."
"""Where a recipe has the options of a reader."""
_ONLY_IF_SET: Final = (
    *("unanswerable", "positive_threshold", "words"),
    *("multi_label", "both_orders"),
)
"""Fields of a task that manifests hold unless they have the default."""


@dataclass(frozen=True, kw_only=True)
class TaskMetadata:
    """Metadata of a task for training and evaluation, recorded in manifests."""

    name: str
    """name of the task, such as `sst2`"""
    head: str
    """head of the task, a file of extensions/tasks/rows"""
    labels: tuple[str, ...] = ()
    """class names of rows or words, by class index"""
    metrics: tuple[str, ...]
    """names of the metrics, main metric first"""
    texts: int = 1
    """texts per row, 1 or 2"""
    positive: int | None = None
    """positive class of F1"""
    low: float = 0.0
    """lowest score of a regression task"""
    high: float = 1.0
    """highest score of a regression task"""
    unanswerable: bool = False
    """true if questions may have no answer"""
    positive_threshold: float | None = None
    """lowest score of a positive pair, in a similarity task"""
    words: tuple[str, ...] = ()
    """texts of the classes, by class index, if a model generates them"""
    multi_label: bool = False
    """true if a row has any number of classes"""
    both_orders: bool = False
    """true if a row holds a pair in both orders"""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for a manifest; some keys only if they are set."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
            if key not in _ONLY_IF_SET or value != getattr(type(self), key)
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TaskMetadata:
        """Return the metadata with these fields."""
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
        }
        return cls(**values)


class TaskReader(ABC):
    """Reads one task of a collection, selected by its options."""

    VERSION: ClassVar[int] = 1
    """raised when the same input gives other rows"""
    Options: ClassVar[Any]
    unit: ClassVar[str] = "line"
    """unit of the row index in messages"""
    has_parts: ClassVar[bool] = False
    """true if a file may be one of several parts, as in a folder that `datasets` saved"""
    in_folders: bool = False
    """true if a split is a folder of folders with text files, `train/pos/0_9.txt`; its first file
    stands for all"""
    split_names: ClassVar[Mapping[str, str]] = {}
    """split by official file name (without suffix), for names that do not contain the split"""

    options: Any
    form: NormalForm = "prose"
    """stored form of the texts, as in `clean.normalize`"""

    def __init__(self, options: Any, limits: InputLimits) -> None:
        self.options = options
        self.limits = limits

    @property
    @abstractmethod
    def metadata(self) -> TaskMetadata:
        """Metadata of the task."""

    @abstractmethod
    def open(self, path: Path) -> RowFile:
        """Open a file after detecting its layout.

        ConfigurationError if it has no layout of the task.
        """

    def complete_options(self, splits: Mapping[str, Path]) -> object:
        """Return the options, completed from the files of the splits; by default unchanged."""
        return self.options

    def input_columns(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the columns of a model's input in a file with columns `names`; by default none.

        Keys are text, text_pair, words, question, context, begin, choices and source.
        """
        return {}

    def table_form(self) -> tuple[str | None, Sequence[str]]:
        """Return the delimiter of the task's tables, and the column names of tables without header.

        The delimiter is None if the files tell it. Without column names, tables have a header.
        """
        return None, ()

    @abstractmethod
    def item(self, row: Row, index: int) -> TaskItem:
        """Return the item of a row.

        Raises:
            Unfit: the row is not an example.
        """

    def read(self, file: RowFile) -> Iterator[TaskItem | Rejected]:
        """Yield every row of a file."""
        for index, row in file.rows():
            yield row if isinstance(row, Rejected) else self.build(row, index)

    def suite(self) -> str:
        """Return the name of the task, of which `decontaminate` searches the items."""
        return self.metadata.name

    def item_texts(self, file: RowFile) -> Iterator[tuple[int, tuple[str, ...]] | Rejected]:
        """Yield index and texts of each item of a file."""
        for item in self.read(file):
            yield item if isinstance(item, Rejected) else (item.index, list_item_texts(item))

    def build(
        self, row: Row | Rejected, index: int, make: Callable[[Row, int], TaskItem] | None = None
    ) -> TaskItem | Rejected:
        """Return the item of a row, or its rejection; `make` builds it, by default `item`."""
        if isinstance(row, Rejected):
            return replace(row, index=index)
        try:
            return (make or self.item)(self.normalize(row), index)
        except Unfit as error:
            return attach_texts(
                Rejected(error.reason, index, error.detail), self.texts_to_keep(row)
            )

    def normalize(self, row: Row) -> Row:
        """Return a row with its texts in the stored form, as in documents."""
        normalized: Row = normalize_row(self.form, row)
        return normalized

    def texts_to_keep(self, row: Row) -> Any:
        """Return the fields by which a search finds a rejected row in texts; by default all."""
        return {name: value for name, value in row.items() if name != GROUP}

    def complete(
        self, items: Iterable[TaskItem | Rejected], tokenizer: Tokenizer
    ) -> Iterable[TaskItem | Rejected]:
        """Return the rows, completed by the tokenizer (such as ids of a template).

        By default unchanged.
        """
        return items

    def open_unlabeled(self, path: Path) -> RowFile:
        """Open a file whose labels may be missing.

        ConfigurationError if it has no layout of the task.
        """
        return self.open(path)

    def read_with_placeholders(
        self,
        path: Path,
        make: Callable[[Row, int], TaskItem],
        key_of: Callable[[Row], Any] = lambda _: None,
    ) -> Iterator[tuple[TaskItem | Rejected, Any]] | None:
        """Return the rows of a file, built by `make` with consecutive indices, and their ids.

        None if `open_unlabeled` finds no layout of the task.
        """
        try:
            file = self.open_unlabeled(path)
        except ConfigurationError:
            return None
        return (
            (self.build(row, number, make), None if isinstance(row, Rejected) else key_of(row))
            for number, (_, row) in enumerate(file.rows())
        )

    def read_unlabeled(self, path: Path) -> Iterator[tuple[TaskItem | Rejected, Any]] | None:
        """Return the rows of a file with placeholder answers and ids.

        None without a layout of the task. Row indices are consecutive. Other files are read by
        `input_columns`.
        """
        return None


def is_task(objective: ObjectiveRecord | None) -> bool:
    """Return whether a set holds rows of a task rather than texts, by its objective."""
    return objective is not None and objective.name == TASK


def read_task_metadata(manifest: Manifest) -> TaskMetadata | None:
    """Return the task metadata of a set; None if it is not a task set."""
    if manifest.objective is None or not is_task(manifest.objective):
        return None
    return TaskMetadata.from_dict(manifest.objective.entry()[TASK])
