"""The base of task readers: what they give, and the facts of a task that stand with its sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeAlias

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tasks.readers._task_items import LabeledText, Rejected, TaskItem
from clozeline.pipeline.tasks.readers._text_lines import line_count

TASK: Final = "task"
"""Name, in manifests, of what made a set of labelled rows, where other sets name their objective."""
HeadName: TypeAlias = Literal["classification", "regression", "tagging", "span", "lm", "multiple_choice", "similarity"]
"""The heads that learn tasks."""


@dataclass(frozen=True)
class Layout:
    """The layout that a file shows; some readers have richer ones, with the same `name` and `labelled`."""

    name: str
    """name in reports, such as `official`"""
    has_labels: bool = True
    """true if its rows have labels; published test files often have none"""
    files: tuple[Path, ...] = ()
    """files read with it line by line, such as that of the targets"""


@dataclass(frozen=True)
class TaskFile:
    """A file of a task that can be read.

    Args:
        path: of the file, plain or compressed.
        layout: what its first line shows.
    """

    path: Path
    layout: Any


@dataclass(frozen=True, kw_only=True)
class TaskFacts:
    """Facts of a task that training and evaluation need; manifests record them.

    Args:
        name: of the task, such as `sst2`.
        head: the head that learns it.
        labels: names of the classes by their numbers, those of rows or of words; none where answers are no classes.
        metrics: names of its metrics, the first decides.
        texts: texts of a row, one or two.
        positive: class that F1 is of; None: no metric needs one.
        low: lowest number of a task of regression.
        high: highest number of it.
        unanswerable: true if questions may have no answer.
        alike: lowest number of a pair whose texts belong together, of texts that are read apart.
        words: texts of the classes, by their numbers, of a task whose classes a model writes.
    """

    name: str
    head: HeadName
    labels: tuple[str, ...] = ()
    metrics: tuple[str, ...]
    texts: int = 1
    positive: int | None = None
    low: float = 0.0
    high: float = 1.0
    unanswerable: bool = False
    alike: float | None = None
    words: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return plain data for a manifest; `unanswerable`, `alike` and `words` only where they are given."""
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        absent = {"unanswerable": not self.unanswerable, "alike": self.alike is None, "words": not self.words}
        return {key: value for key, value in plain.items() if not absent.get(key, False)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> TaskFacts:
        """Return the facts of which `plain` is the plain data."""
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()
        }
        return cls(**given)


class TaskReader(ABC):
    """A reader of one collection of tasks, bound to one of them by its options.

    Args:
        options: an instance of the nested `Options`.
        limits: bounds on lines and decompression.
    """

    VERSION: ClassVar[int]
    Options: ClassVar[Any]
    reasons: ClassVar[tuple[str, ...]]
    """reasons for which rows are refused"""

    def __init__(self, options: Any, limits: Limits) -> None:
        self.options = options
        self.limits = limits

    @property
    @abstractmethod
    def facts(self) -> TaskFacts:
        """Facts of the task."""

    @abstractmethod
    def open(self, path: Path) -> TaskFile:
        """Return a file with the layout that it shows.

        Raises:
            ConfigurationError: it has none of the task's layouts; the message lists them, and what it has.
        """

    def companions(self, path: Path) -> tuple[Path, ...]:
        """Return the files beside a file that are read with it, such as that of its targets."""
        return ()

    @abstractmethod
    def read(self, file: TaskFile) -> Iterator[TaskItem | Rejected]:
        """Yield every row of a file; lines that are no rows, such as a header, are left out."""

    def row_count(self, file: TaskFile) -> int:
        """Return how many rows a file has, counted apart from `read`, which has to yield as many: here one a line."""
        return max(line_count(path, self.limits) for path in (file.path, *file.layout.files))

    @cached_property
    def label_numbers(self) -> dict[str, int]:
        """The number of each class."""
        return {label: number for number, label in enumerate(self.facts.labels)}

    def format_lines(self, items: Sequence[LabeledText]) -> Iterator[str]:
        """Yield the lines of a file from which `read` gives these texts and classes, without line ends.

        Raises:
            ConfigurationError: the reader writes no files.
        """
        raise ConfigurationError(f"the reader {type(self).__name__} has no layout of classes that can be written")


def facts_of(manifest: Manifest) -> TaskFacts | None:
    """Return the facts of the task whose rows a set holds; None for a set of another kind."""
    if manifest.objective is None or manifest.objective.name != TASK:
        return None
    return TaskFacts.from_plain(manifest.objective.options[TASK])
