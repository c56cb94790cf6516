"""Rows of a task in memory: one class per type of answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias


class Unfit(Exception):
    """A row cannot become an example; `reason` is a short code, and `detail` explains it."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


GROUP: Final = "#group"
"""Field of a row that names the document of the row; the field is no text of the task."""


@dataclass(frozen=True, slots=True)
class LabeledText:
    """A text or a pair of texts with a label or a score."""

    texts: tuple[str, ...]
    label: int | None
    """class index; None in regression, and if rows have any number of classes"""
    target: float | None
    """score; None in classification"""
    index: int
    group: str | None = None
    classes: tuple[int, ...] | None = None
    """class indices in ascending order, possibly none; None unless rows have any number of
    classes"""

    @property
    def overlap_texts(self) -> tuple[str, ...]:
        """The texts."""
        return self.texts


@dataclass(frozen=True, slots=True)
class TaggedWords:
    """A sentence with one label per word."""

    words: tuple[str, ...]
    tags: tuple[int, ...]
    """class index of each word"""
    index: int
    group: str | None = None

    @property
    def text(self) -> str:
        """The words joined by single spaces."""
        return " ".join(self.words)

    @property
    def overlap_texts(self) -> tuple[str, ...]:
        """The sentence."""
        return (self.text,)


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a context that may contain its answer."""

    question: str
    context: str
    answers: tuple[tuple[int, str], ...]
    """accepted answers, each with its first character in the context; empty if there is no
    answer"""
    key: str
    """id of the question in its file"""
    index: int
    group: str | None = None
    given: str = field(default="", compare=False)
    """the context as the file writes it, before it gets its stored form"""

    @property
    def overlap_texts(self) -> tuple[str, ...]:
        """The context, which many questions share."""
        return (self.context,)


@dataclass(frozen=True, slots=True)
class SourceTarget:
    """A source text and the target texts that a model may generate from it."""

    source: str
    targets: tuple[str, ...]
    """accepted targets; models are trained on the first"""
    prefix: str
    """text before the source that names the task"""
    index: int
    group: str | None = None
    suffix: str = ""

    @property
    def overlap_texts(self) -> tuple[str, ...]:
        """The source."""
        return (self.source,)

    @property
    def parts(self) -> tuple[TemplatePart, ...]:
        """The source with prefix and suffix, and the first target."""
        return (
            TemplatePart(self.prefix + self.source + self.suffix),
            TemplatePart(self.targets[0], is_target=True),
        )

    @property
    def answers(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The source with the accepted targets."""
        return ((self.source, self.targets),)


@dataclass(frozen=True, slots=True)
class TemplatePart:
    """A piece of a templated text, encoded separately; its text never becomes a special token."""

    text: str
    """the text, without special tokens"""
    is_target: bool = False
    """true if the loss covers the part"""
    ids: tuple[int, ...] | None = None
    """tokens of an encoded part, such as a special token; None: encode the text"""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Messages up to the last answer; the loss covers the answers."""

    messages: tuple[tuple[str, str], ...]
    """role and content of each message"""
    index: int
    group: str | None = None
    parts: tuple[TemplatePart, ...] = ()
    """the messages in their template; empty until the tokenizer is known"""
    is_framed: bool = False
    """true if the template writes all special tokens of a row"""

    @property
    def overlap_texts(self) -> tuple[str, ...]:
        """The first message."""
        return (self.messages[0][1],)

    @property
    def answers(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The text before each answer, and the answer, without special tokens."""
        texts = [part.text for part in self.parts]
        return tuple(
            ("".join(texts[:begin]), ("".join(texts[begin:end]).strip(),))
            for begin, end in answer_runs(self.parts)
        )


def answer_runs(parts: Sequence[TemplatePart]) -> list[tuple[int, int]]:
    """Return the runs of target parts as (first, after last) indices.

    Example:
        >>> end, answer = TemplatePart("", True, (2,)), TemplatePart("b", is_target=True)
        >>> answer_runs([TemplatePart("a"), answer, end, TemplatePart("c"), answer])
        [(1, 3), (4, 5)]
    """
    changes = [
        number
        for number in range(1, len(parts))
        if parts[number].is_target != parts[number - 1].is_target
    ]
    runs = pairwise([0, *changes, len(parts)])
    return [(begin, end) for begin, end in runs if parts[begin].is_target]


@dataclass(frozen=True, slots=True)
class Choices:
    """A context and two or more choices, one of which continues or answers it."""

    context: str
    choices: tuple[str, ...]
    right: int
    """index of the correct choice"""
    index: int
    group: str | None = None

    @property
    def overlap_texts(self) -> tuple[str, ...]:
        """The context alone: choices such as `yes` recur everywhere."""
        return (self.context,)


TaskItem: TypeAlias = LabeledText | TaggedWords | Question | SourceTarget | Dialogue | Choices
"""A row of a task. `index` is its first line, or its row in files without lines. `group` names its
document, which no two splits share; None if the file names no documents, so that no two splits
share `overlap_texts`."""


def list_item_texts(item: TaskItem) -> tuple[str, ...]:
    """Return the texts of a task row that documents may contain, such as shared contexts."""
    if isinstance(item, Question):
        return item.question, item.context
    if isinstance(item, Choices):
        return item.context, *item.choices
    if isinstance(item, SourceTarget):
        return item.source, *item.targets
    if isinstance(item, Dialogue):
        return tuple(content for _, content in item.messages)
    return item.overlap_texts
