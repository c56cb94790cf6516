"""Rows of tasks in memory, one type for each kind of answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol


class TaskItem(Protocol):
    """A row of a task."""

    @property
    def index(self) -> int:
        """Number of its first line, or of itself where the file has no lines; the first is 0."""

    @property
    def group(self) -> str | None:
        """Name of the document that it was taken from, which no two splits share; None: the file names none."""

    @property
    def overlap_texts(self) -> tuple[str, ...]:
        """Texts by which it is found again: no two splits may share one where the file names no documents."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that is no example.

    Args:
        reason: `fields`, `bad_label`, ...
        place: number of its line, the first is 0.
        detail: what stands there, and what to do about it; empty: the reason says all.
    """

    reason: str
    index: int
    detail: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class LabeledText:
    """A text or a pair of texts with one answer.

    Args:
        texts: one text, or the two of a pair.
        label: number of its class; None where the task has none.
        target: its number, of a task of regression; else None.
        place: number of its line in the file, the first is 0.
        group: its document, if the file names one.
    """

    texts: tuple[str, ...]
    label: int | None
    target: float | None
    index: int
    group: str | None = None

    @property
    def overlap_texts(self) -> tuple[str, ...]:
        """The texts."""
        return self.texts


@dataclass(frozen=True, slots=True)
class TaggedWords:
    """A sentence whose words have one class each.

    Args:
        words: of the sentence.
        tags: numbers of their classes.
        place: number of its first line.
        group: its document, if the file names one.
    """

    words: tuple[str, ...]
    tags: tuple[int, ...]
    index: int
    group: str | None = None

    @property
    def text(self) -> str:
        """The words with one space between two."""
        return " ".join(self.words)

    @property
    def overlap_texts(self) -> tuple[str, ...]:
        """The sentence."""
        return (self.text,)


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a text that holds its answer, or none.

    Args:
        question: what is asked.
        context: the text.
        answers: accepted answers, each with the character of the context at which it begins; empty: there is none.
        key: identifier of the question in its file.
        place: number of the question in the file.
        group: the article.
    """

    question: str
    context: str
    answers: tuple[tuple[int, str], ...]
    key: str
    index: int
    group: str | None = None

    @property
    def overlap_texts(self) -> tuple[str, ...]:
        """The text alone: many questions are asked about one."""
        return (self.context,)


@dataclass(frozen=True, slots=True)
class SourceTarget:
    """A text and the text that it becomes.

    Args:
        source: the text that is given.
        targets: accepted texts; the first is learnt.
        prefix: text before the source, which names the task.
        place: number of its line in the file, the first is 0.
        group: its document, if the file names one.
        suffix: text after the source.
    """

    source: str
    targets: tuple[str, ...]
    prefix: str
    index: int
    group: str | None = None
    suffix: str = ""

    @property
    def overlap_texts(self) -> tuple[str, ...]:
        """The given text."""
        return (self.source,)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The source with its prefix, and the target that is learnt."""
        return (Part(self.prefix + self.source + self.suffix), Part(self.targets[0], is_target=True))

    @property
    def answers(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The source with the accepted targets."""
        return ((self.source, self.targets),)


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a text that is put together.

    Args:
        text: encoded for itself, so that nothing in it is a special token; or the name of one.
        special: true for the name of a special token, such as `eos`.
        learnt: true if a model learns to write it, false if it only reads it.
    """

    text: str
    special: bool = False
    is_target: bool = False


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Messages as a model reads them, of which the answers are learnt.

    Args:
        parts: of all messages; the last is learnt.
        opening: the first message.
        place: number of its line in the file, the first is 0.
        group: its document, if the file names one.
    """

    parts: tuple[Part, ...]
    opening: str
    index: int
    group: str | None = None

    @property
    def overlap_texts(self) -> tuple[str, ...]:
        """The first message."""
        return (self.opening,)

    @property
    def answers(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The text before each answer, and the answer, without special tokens."""
        texts = ["" if part.special else part.text for part in self.parts]
        return tuple(
            ("".join(texts[:begin]), ("".join(texts[begin:end]).strip(),)) for begin, end in answer_runs(self.parts)
        )


def answer_runs(parts: Sequence[Part]) -> list[tuple[int, int]]:
    """Return where answers are, each the number of its first part and that after its last.

    Example:
        >>> answer_runs([Part("a"), Part("b", learnt=True), Part("eos", True, True), Part("c"), Part("d", learnt=True)])
        [(1, 3), (4, 5)]
    """
    edges = [0, *(number for number in range(1, len(parts)) if parts[number].is_target != parts[number - 1].is_target)]
    return [(begin, end) for begin, end in pairwise([*edges, len(parts)]) if parts[begin].is_target]


@dataclass(frozen=True, slots=True)
class Choices:
    """A text and several texts, of which one continues or answers it.

    Args:
        context: the text before each choice.
        choices: two or more.
        right: number of the right one.
        place: number of the row in the file, the first is 0.
        group: its document, if the file names one.
    """

    context: str
    choices: tuple[str, ...]
    right: int
    index: int
    group: str | None = None

    @property
    def overlap_texts(self) -> tuple[str, ...]:
        """The context alone: choices such as `yes` recur everywhere."""
        return (self.context,)
