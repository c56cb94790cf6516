"""Code-switching of the rows of a task: words in other languages, with labels that follow them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import LabeledText, Rejected, TaggedWords, TaskFacts, TaskItem
from clozeline.pipeline.text.code_switching import WordSwitcher

_HEADS: Final = ("classification", "regression", "tagging")


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
