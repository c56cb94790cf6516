"""Change training items: pairs for a bi-encoder, and words in other languages."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.readers import (
    LabeledText,
    Rejected,
    SourceTarget,
    TaggedWords,
    TaskItem,
    TaskMetadata,
)
from clozeline.extensions.tasks.registries import TASK_ROWS
from clozeline.pipeline.text.code_switching import WordSwitcher


def pair_metadata(metadata: TaskMetadata, positive: float | str | None) -> TaskMetadata:
    """Return the metadata of the similarity task made from a task and its positive pairs.

    Raises:
        ConfigurationError: the task has no pairs with a score or class and no sources and targets,
            or `positive` does not fit.
    """
    made = TaskMetadata(
        name=metadata.name,
        head="similarity",
        metrics=("accuracy",),
        texts=2,
        positive_threshold=1.0,
    )

    if metadata.head == "lm":  # aligned texts, all positive, are scored by retrieval accuracy
        expected = "null"
        fits = positive is None
    elif metadata.head == "classification" and metadata.texts == 2:
        expected = f"one of {', '.join(metadata.labels)}"
        fits = _class_name(positive) in metadata.labels
        made = replace(made, metrics=("spearman", "pearson"))
    elif metadata.head == "regression" and metadata.texts == 2:
        # without a threshold, all pairs are positive
        expected = f"a number above {metadata.low:g} and up to {metadata.high:g}, or null"
        fits = positive is None or (
            isinstance(positive, float) and metadata.low < positive <= metadata.high
        )
        made = replace(
            metadata,
            head="similarity",
            positive_threshold=positive if isinstance(positive, float) else None,
        )
    else:
        raise ConfigurationError(
            f"tasks.similarity: the task {metadata.name} has no pairs of texts"
        )

    if not fits:
        raise ConfigurationError(
            f"tasks.similarity.positive: expected {expected} of the task {metadata.name}, got "
            f"{positive}"
        )

    return made


def to_pair(
    item: TaskItem | Rejected, metadata: TaskMetadata, positive: float | str | None
) -> LabeledText | Rejected:
    """Return an item as a pair with a score; a class becomes 1 if it is positive, else 0."""
    if isinstance(item, SourceTarget):
        return LabeledText((item.source, item.targets[0]), None, 1.0, item.index, item.group)
    if isinstance(item, LabeledText):
        names = {
            metadata.labels[index] for index in (item.classes or (item.label,)) if index is not None
        }
        return (
            replace(item, label=None, target=float(_class_name(positive) in names))
            if item.target is None
            else item
        )

    return Rejected(item.reason if isinstance(item, Rejected) else "no_pair", item.index)


def _class_name(positive: float | str | None) -> str:
    # a number may name a class: MRPC's paraphrases have class 1
    return f"{positive:g}" if isinstance(positive, float) else str(positive)


def reject_negative(item: TaskItem | Rejected, metadata: TaskMetadata) -> TaskItem | Rejected:
    """Return a training item of a similarity task, or a rejection if the pair is negative."""
    target = item.target if isinstance(item, LabeledText) else None
    is_negative = (
        target is not None
        and metadata.positive_threshold is not None
        and target < metadata.positive_threshold
    )
    return Rejected("negative_pair", item.index) if is_negative else item


def check_switched_head(metadata: TaskMetadata) -> None:
    """Raise ConfigurationError if the answers of a task are texts or positions in a text."""
    switched = [name for name, rows in TASK_ROWS.classes().items() if rows.switches_words]
    if metadata.head not in switched:
        raise ConfigurationError(
            "tasks.code_switch: translating words would move the answers of the head "
            f"{metadata.head}: expected a task for {', '.join(switched)}; remove the key"
        )


def code_switch(
    items: Iterable[TaskItem | Rejected], switcher: WordSwitcher, metadata: TaskMetadata
) -> Iterator[TaskItem | Rejected]:
    """Yield the training rows with some words translated and unchanged labels.

    All words of a translation get the label of the word; entity tags continue as in `expand_label`.
    """
    for item in items:
        if isinstance(item, Rejected) or not switcher.chooses(item.index):
            yield item
        elif isinstance(item, TaggedWords):
            words = [
                switcher.translate(item.index, number, word).split()
                for number, word in enumerate(item.words)
            ]
            labels = [
                expand_label(metadata.labels[tag], len(new))
                for tag, new in zip(item.tags, words, strict=True)
            ]
            yield replace(
                item,
                words=tuple(chain.from_iterable(words)),
                tags=tuple(map(metadata.labels.index, chain.from_iterable(labels))),
            )
        else:
            assert isinstance(item, LabeledText), "checked by `check_switched_head`"
            texts = []
            number = 0
            for text in item.texts:
                new, counted, _ = switcher.translate_text(item.index, text, number)
                texts.append(new)
                number += counted
            yield replace(item, texts=tuple(texts))


def expand_label(label: str, count: int) -> list[str]:
    """Return the labels of the `count` words that replace one word.

    Example:
        >>> expand_label("B-PER", 3), expand_label("NOUN", 2)
        (['B-PER', 'I-PER', 'I-PER'], ['NOUN', 'NOUN'])
    """
    return [label, *[f"I-{label[2:]}" if label.startswith("B-") else label] * (count - 1)]
