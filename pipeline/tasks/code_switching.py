"""Words of training rows in other languages, by dictionaries: code-switching (CoSDA-ML, arXiv 2006.06402)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers import LabeledText, Rejected, TaggedWords, TaskFacts, TaskItem
from clozeline.pipeline.tasks.readers._text_lines import text_lines
from clozeline.seeding import hash64

Dictionary: TypeAlias = Mapping[str, Sequence[str]]
"""Translations of each word, in lower case."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_HEADS: Final = ("classification", "regression", "tagging")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class CodeSwitchConfig:
    """Dictionaries, and how many words they replace."""

    dictionaries: Annotated[list[Path], Field(min_length=1)]
    """a file for each language: lines of a word and its translation, with a tab or a blank between them"""
    sentence_rate: Annotated[float, Field(gt=0, le=1)] = 1.0
    """share of the rows with replaced words"""
    word_rate: Annotated[float, Field(gt=0, le=1)] = 0.9
    """share of the words of such a row that are replaced, where a dictionary has them"""

    def check_head(self, facts: TaskFacts) -> None:
        """Refuse tasks whose answers are places in a text, or texts.

        Raises:
            ConfigurationError: the task is one.
        """
        if facts.head not in _HEADS:
            raise ConfigurationError(
                f"tasks.code_switch: replaced words move the answers of the head {facts.head}: expected a task for "
                f"{', '.join(_HEADS)}; remove the key"
            )


def read_dictionary(path: Path, limits: Limits) -> dict[str, list[str]]:
    """Return the translations of each word of a file, in MUSE's format: `cat Katze`, or `cat<tab>wilde Katze`.

    Raises:
        ConfigurationError: a line is damaged or no pair, or there is none.
    """
    found: dict[str, list[str]] = {}
    if not path.is_file():
        raise ConfigurationError(f"tasks.code_switch.dictionaries: {path}: no such file")
    for number, line in text_lines(path, limits):
        text = line.reason if isinstance(line, Rejected) else line.strip()
        if text:
            word, _, other = text.partition("\t" if "\t" in text else " ")
            if isinstance(line, Rejected) or not word.strip() or not other.strip():
                raise ConfigurationError(
                    f"{path}, line {number + 1}: expected a word and its translation, got {text!r}"
                )
            found.setdefault(word.strip().lower(), []).append(other.strip())
    if not found:
        raise ConfigurationError(f"{path}: expected lines of a word and its translation, got none")
    return found


def code_switch(
    items: Iterable[TaskItem | Rejected],
    config: CodeSwitchConfig,
    dictionaries: Sequence[Dictionary],
    facts: TaskFacts,
    seed: int,
) -> Iterator[TaskItem | Rejected]:
    """Yield rows with translated words and the same answers; what is replaced is a function of seed, row and word.

    Each word draws its language and one of its translations there. A translation of several words gets its word's
    class, an entity its parts (see `spread`). A capital is kept.

    Args:
        items: of the training split.
        config: the rates.
        dictionaries: of the languages.
        facts: of the task.
        seed: of the draws.
    """

    def of(index: int, number: int, word: str) -> str | None:
        if _draw_uniform(seed, "word", index, number) >= config.word_rate:
            return None
        choice = dictionaries[int(_draw_uniform(seed, "language", index, number) * len(dictionaries))].get(word.lower())
        if choice is None:
            return None
        new = choice[int(_draw_uniform(seed, "translation", index, number) * len(choice))]
        return new[:1].upper() + new[1:] if word[:1].isupper() else new

    for item in items:
        if isinstance(item, Rejected) or _draw_uniform(seed, "sentence", item.index, 0) >= config.sentence_rate:
            yield item
        elif isinstance(item, TaggedWords):
            yield _switch_words(item, of, facts.labels)
        else:
            assert isinstance(item, LabeledText), "checked by `check_head`"
            yield _switch_texts(item, of)


def _switch_texts(item: LabeledText, of: Callable[[int, int, str], str | None]) -> LabeledText:
    texts, number = [], 0
    for text in item.texts:
        parts, end = [], 0
        for found in _WORD.finditer(text):
            parts += [text[end : found.start()], of(item.index, number, found[0]) or found[0]]
            end, number = found.end(), number + 1
        texts.append("".join((*parts, text[end:])))
    return replace(item, texts=tuple(texts))


def _switch_words(item: TaggedWords, of: Callable[[int, int, str], str | None], labels: Sequence[str]) -> TaggedWords:
    words: list[str] = []
    tags: list[int] = []
    for number, (word, tag) in enumerate(zip(item.words, item.tags, strict=True)):
        new = (of(item.index, number, word) or word).split()
        words += new
        tags += [labels.index(label) for label in expand_label(labels[tag], len(new))]
    return replace(item, words=tuple(words), tags=tuple(tags))


def expand_label(label: str, count: int) -> list[str]:
    """Return the classes of the words that a word of a class has become.

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


def _draw_uniform(seed: int, purpose: str, index: int, number: int) -> float:
    """Return a number from [0, 1)."""
    return float(hash64("code switch", purpose, seed, index, number) >> 11) / 2**53
