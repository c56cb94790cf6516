"""Change the items that models learn from: pairs for a bi-encoder, and words in other languages."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.config import SimilarityConfig
from clozeline.pipeline.tasks.readers import (
    LabeledText,
    Rejected,
    SourceTarget,
    TaggedWords,
    TaskFacts,
    TaskFile,
    TaskItem,
    TaskReader,
)
from clozeline.pipeline.text.code_switching import WordSwitcher

_HEADS: Final = ("classification", "regression", "tagging")
"""Heads of tasks whose answers do not move with the words."""


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


def check_switched_head(facts: TaskFacts) -> None:
    """Raise ConfigurationError for a task whose answers are texts or positions in a text."""
    if facts.head not in _HEADS:
        raise ConfigurationError(
            f"tasks.code_switch: replaced words move the answers of the head {facts.head}: expected a task for "
            f"{', '.join(_HEADS)}; remove the key"
        )


def code_switch(
    items: Iterable[TaskItem | Rejected], switcher: WordSwitcher, facts: TaskFacts
) -> Iterator[TaskItem | Rejected]:
    """Yield the training rows with translated words and unchanged labels.

    The words of a longer translation get the label of the word, entity tags as in `expand_label`.
    """
    for item in items:
        if isinstance(item, Rejected) or not switcher.chooses(item.index):
            yield item
        elif isinstance(item, TaggedWords):
            words = [switcher.translate(item.index, *pair).split() for pair in enumerate(item.words)]
            labels = [expand_label(facts.labels[tag], len(new)) for tag, new in zip(item.tags, words, strict=True)]
            yield replace(
                item,
                words=tuple(word for new in words for word in new),
                tags=tuple(facts.labels.index(label) for new in labels for label in new),
            )
        else:
            assert isinstance(item, LabeledText), "checked by `check_switched_head`"
            texts, number = [], 0
            for text in item.texts:
                new, counted, _ = switcher.translate_text(item.index, text, number)
                texts.append(new)
                number += counted
            yield replace(item, texts=tuple(texts))


def expand_label(label: str, count: int) -> list[str]:
    """Return the labels of the `count` words that replace one word.

    Example:
        >>> expand_label("B-PER", 3), expand_label("S-PER", 2), expand_label("E-PER", 2), expand_label("NOUN", 2)
        (['B-PER', 'I-PER', 'I-PER'], ['B-PER', 'E-PER'], ['I-PER', 'E-PER'], ['NOUN', 'NOUN'])
    """
    mark, inside = label[:2], f"I-{label[2:]}"
    if count == 1 or mark not in ("B-", "E-", "S-"):
        return [label] * count
    first = inside if mark == "E-" else f"B-{label[2:]}"
    last = inside if mark == "B-" else f"E-{label[2:]}"
    return [first, *[inside] * (count - 2), last]
