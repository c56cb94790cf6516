"""Similarity tasks from readers of text pairs, for a bi-encoder with the head similarity."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.config import SimilarityConfig
from clozeline.pipeline.tasks.readers import (
    LabeledText,
    Rejected,
    SourceTarget,
    TaskFacts,
    TaskFile,
    TaskItem,
    TaskReader,
)


class SimilarPairs:
    """The pairs of a task reader, each with a score: its own, or 1 for positive and 0 for negative pairs.

    The reader is one of pairs with a score or a class, or of sources and targets; others raise a ConfigurationError.
    Whatever is not said here is as in the reader.
    """

    def __init__(self, reader: TaskReader, config: SimilarityConfig) -> None:
        self._reader, self._class = reader, -1
        self._threshold: float | None = None
        facts, alike = reader.facts, config.alike
        name = f"{alike:g}" if isinstance(alike, float) else str(alike)  # MRPC's paraphrases have class 1
        has_pairs = facts.texts == 2 or facts.head == "lm"
        expected = {
            "regression": f"a number above {facts.low:g} and up to {facts.high:g}, or null",
            "classification": f"one of {', '.join(facts.labels)}", "lm": "null",
        }.get(facts.head if has_pairs else "")  # fmt: skip
        if expected is None:
            raise ConfigurationError(f"tasks.similarity: the task {facts.name} has no pairs of texts")
        if facts.head == "regression" and isinstance(alike, float) and facts.low < alike <= facts.high:
            self._threshold = alike
        elif facts.head == "classification" and name in facts.labels:
            self._class, self._threshold = facts.labels.index(name), 1.0
        elif facts.head == "lm" and alike is None:
            self._threshold = 1.0
        elif facts.head != "regression" or alike is not None:  # without a threshold, no score is too low
            raise ConfigurationError(
                f"tasks.similarity.alike: expected {expected} of the task {facts.name}, got {alike}"
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    @property
    def facts(self) -> TaskFacts:
        """Metadata of the similarity task."""
        facts = self._reader.facts
        if facts.head == "regression":
            return replace(facts, head="similarity", alike=self._threshold)
        # aligned texts are scored by retrieval accuracy
        metrics = ("spearman", "pearson") if facts.head == "classification" else ("accuracy",)
        return TaskFacts(name=facts.name, head="similarity", metrics=metrics, texts=2, alike=self._threshold)

    def read(self, file: TaskFile) -> Iterator[LabeledText | Rejected]:
        """Yield every row of a file."""
        for item in self._reader.read(file):
            if isinstance(item, SourceTarget):
                yield LabeledText((item.source, item.targets[0]), None, 1.0, item.index, item.group)
            elif isinstance(item, LabeledText):
                yield item if self._class < 0 else replace(item, label=None, target=float(item.label == self._class))
            else:
                yield Rejected(item.reason if isinstance(item, Rejected) else "no_pair", item.index)

    def select_for_training(self, item: TaskItem | Rejected) -> TaskItem | Rejected:
        """Return a training row, or a rejection if the pair is negative."""
        target, lowest = item.target if isinstance(item, LabeledText) else None, self._threshold
        if target is not None and lowest is not None and target < lowest:
            return Rejected("not_alike", item.index)
        return item
