"""Pairs of texts that are read apart and compared: the rows of a reader of pairs, for the head similarity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import (
    LabeledText,
    Rejected,
    SourceTarget,
    TaskFacts,
    TaskFile,
    TaskItem,
    TaskReader,
)

_METRICS = ("spearman", "pearson")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SimilarityConfig:
    """The pairs whose texts belong together."""

    alike: float | str | None = None
    """lowest number (4.0 in STS-B) or class (entailment in MNLI) of two texts that belong together: those pairs are
    learnt; null, for aligned texts such as translations: all of them"""


class SimilarPairs(TaskReader):
    """The pairs of another reader, each with a number: its own, or 1 for pairs that belong together and 0 for others.

    Args:
        reader: of pairs with a number or a class, or of sources and targets.
        config: which of them belong together.

    Raises:
        ConfigurationError: the reader's rows are no such pairs, or have no such number or class.
    """

    VERSION = 1
    reasons = ("not_alike", "no_pair")

    def __init__(self, reader: TaskReader, config: SimilarityConfig) -> None:
        super().__init__(reader.options, reader.limits)
        self._reader = reader
        self._class: int | None = None
        facts, alike = reader.facts, config.alike
        if facts.head == "regression" and facts.texts == 2 and isinstance(alike, float):
            if not facts.low < alike <= facts.high:
                raise ConfigurationError(
                    f"tasks.similarity.alike: expected a number above {facts.low:g} and up to {facts.high:g}, "
                    f"got {alike:g}"
                )
            self._alike = alike
        elif facts.head == "classification" and facts.texts == 2 and _name(alike) in facts.labels:
            self._class, self._alike = facts.labels.index(_name(alike)), 1.0
        elif facts.head == "lm" and alike is None:
            self._alike = 1.0
        else:
            wanted = {
                "regression": f"a number up to {facts.high:g}", "classification": f"one of {', '.join(facts.labels)}",
                "lm": "null",
            }.get(facts.head if facts.texts == 2 or facts.head == "lm" else "")  # fmt: skip
            raise ConfigurationError(
                f"tasks.similarity: the task {facts.name} has no pairs of texts"
                if wanted is None
                else f"tasks.similarity.alike: expected {wanted} of the task {facts.name}, got {alike}"
            )

    @property
    def facts(self) -> TaskFacts:
        """Facts of the task; classes have become 0 and 1, and aligned texts are to find each other."""
        facts = self._reader.facts
        if facts.head == "regression":
            return replace(facts, head="similarity", alike=self._alike)
        metrics = _METRICS if facts.head == "classification" else ("accuracy",)
        return TaskFacts(name=facts.name, head="similarity", metrics=metrics, texts=2, alike=self._alike)

    def open(self, path: Path) -> TaskFile:
        """Return a file as the reader opens it."""
        return self._reader.open(path)

    def companions(self, path: Path) -> tuple[Path, ...]:
        """Return the files that the reader reads beside a file."""
        return self._reader.companions(path)

    def read(self, file: TaskFile) -> Iterator[TaskItem | Rejected]:
        """Yield every pair of a file with its number."""
        for item in self._reader.read(file):
            if isinstance(item, SourceTarget):
                yield LabeledText((item.source, item.targets[0]), None, 1.0, item.index, item.group)
            elif isinstance(item, LabeledText) and self._class is not None:
                yield replace(item, label=None, target=float(item.label == self._class))
            elif isinstance(item, LabeledText):
                yield item
            else:
                yield Rejected(item.reason if isinstance(item, Rejected) else "no_pair", item.index)

    def row_count(self, file: TaskFile) -> int:
        """Return the number of rows as the reader counts them."""
        return self._reader.row_count(file)

    def select_for_training(self, item: TaskItem | Rejected) -> TaskItem | Rejected:
        """Return a row of train, or the reason that it is not learnt: its texts do not belong together."""
        if isinstance(item, LabeledText) and item.target is not None and item.target < self._alike:
            return Rejected("not_alike", item.index)
        return item


def _name(alike: float | str | None) -> str:
    """Return the name of a class, which may be a number: that of MRPC's paraphrases is 1."""
    return f"{alike:g}" if isinstance(alike, float) else str(alike)
