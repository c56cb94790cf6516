"""Similarity tasks from readers of text pairs, for a bi-encoder with the head similarity."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.config import SimilarityConfig
from clozeline.pipeline.tasks.readers import (
    LabeledText,
    Rejected,
    Row,
    SourceTarget,
    TaskFacts,
    TaskFile,
    TaskItem,
    TaskReader,
)

_METRICS = ("spearman", "pearson")


class SimilarPairs(TaskReader):
    """The pairs of another reader, each with a score: its own, or 1 for positive and 0 for negative pairs.

    The reader is one of pairs with a score or a class, or of sources and targets; others raise a ConfigurationError.
    """

    def __init__(self, reader: TaskReader, config: SimilarityConfig) -> None:
        super().__init__(reader.options, reader.limits)
        self._reader = reader
        self._class: int | None = None
        facts, threshold = reader.facts, config.alike
        self._threshold: float | None = None
        if facts.head == "regression" and facts.texts == 2 and isinstance(threshold, float):
            if not facts.low < threshold <= facts.high:
                raise ConfigurationError(
                    f"tasks.similarity.alike: expected a number above {facts.low:g} and up to {facts.high:g}, "
                    f"got {threshold:g}"
                )
            self._threshold = threshold
        elif facts.head == "regression" and facts.texts == 2 and threshold is None:
            pass  # no score is too low
        elif facts.head == "classification" and facts.texts == 2 and _class_name(threshold) in facts.labels:
            self._class, self._threshold = facts.labels.index(_class_name(threshold)), 1.0
        elif facts.head == "lm" and threshold is None:
            self._threshold = 1.0
        else:
            expected = {
                "regression": f"a number up to {facts.high:g}, or null",
                "classification": f"one of {', '.join(facts.labels)}", "lm": "null",
            }.get(facts.head if facts.texts == 2 or facts.head == "lm" else "")  # fmt: skip
            raise ConfigurationError(
                f"tasks.similarity: the task {facts.name} has no pairs of texts"
                if expected is None
                else f"tasks.similarity.alike: expected {expected} of the task {facts.name}, got {threshold}"
            )

    @property
    def facts(self) -> TaskFacts:
        # aligned texts are scored by retrieval accuracy
        facts = self._reader.facts
        if facts.head == "regression":
            return replace(facts, head="similarity", alike=self._threshold)
        metrics = _METRICS if facts.head == "classification" else ("accuracy",)
        return TaskFacts(name=facts.name, head="similarity", metrics=metrics, texts=2, alike=self._threshold)

    def open(self, path: Path) -> TaskFile:
        return self._reader.open(path)

    def companions(self, path: Path) -> tuple[Path, ...]:
        return self._reader.companions(path)

    def splits_in(self, path: Path) -> tuple[str, ...]:
        return self._reader.splits_in(path)

    def row_splits(self, file: TaskFile) -> Iterator[str]:
        return self._reader.row_splits(file)

    def read(self, file: TaskFile) -> Iterator[TaskItem | Rejected]:
        for item in self._reader.read(file):
            if isinstance(item, SourceTarget):
                yield LabeledText((item.source, item.targets[0]), None, 1.0, item.index, item.group)
            elif isinstance(item, LabeledText) and self._class is not None:
                yield replace(item, label=None, target=float(item.label == self._class))
            elif isinstance(item, LabeledText):
                yield item
            else:
                yield Rejected(item.reason if isinstance(item, Rejected) else "no_pair", item.index)

    def item(self, row: Row, index: int) -> TaskItem:
        return self._reader.item(row, index)

    def select_for_training(self, item: TaskItem | Rejected) -> TaskItem | Rejected:
        """Return a training row, or a rejection if the pair is negative."""
        target, lowest = item.target if isinstance(item, LabeledText) else None, self._threshold
        if target is not None and lowest is not None and target < lowest:
            return Rejected("not_alike", item.index)
        return item


def _class_name(value: float | str | None) -> str:
    """Return the name of a class, which may be a number: MRPC's paraphrases have class 1."""
    return f"{value:g}" if isinstance(value, float) else str(value)
