"""Dictionary code-switching of training examples (CoSDA-ML, arXiv 2006.06402)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers import LabeledText, Rejected, TaggedWords, TaskFacts, TaskItem
from clozeline.pipeline.tasks.readers._text_lines import text_lines
from clozeline.seeding import hash64

Dictionary: TypeAlias = Mapping[str, Sequence[str]]
"""Translations of each lower-case word."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_HEADS: Final = ("classification", "regression", "tagging")


@config_class
class CodeSwitchConfig:
    """Dictionaries, and how many words they replace."""

    dictionaries: Annotated[list[Path], Field(min_length=1)]
    """one file per language: lines of a word and its translation, separated by a tab or a space"""
    sentence_rate: Annotated[float, Field(gt=0, le=1)] = 1.0
    """share of the rows in which words are replaced"""
    word_rate: Annotated[float, Field(gt=0, le=1)] = 0.9
    """share of the words of such a row that are replaced, if a dictionary contains them"""

    def check_head(self, facts: TaskFacts) -> None:
        """Raise ConfigurationError for a task whose answers are texts or positions in a text."""
        if facts.head not in _HEADS:
            raise ConfigurationError(
                f"tasks.code_switch: replaced words move the answers of the head {facts.head}: expected a task for "
                f"{', '.join(_HEADS)}; remove the key"
            )


def read_dictionary(path: Path, limits: Limits) -> dict[str, list[str]]:
    """Return the translations of each word of a file in MUSE's format: `cat Katze`, or `cat<tab>wilde Katze`.

    Raises:
        ConfigurationError: the file is missing or has no pair, or a line is damaged or not a pair.
    """
    translations: dict[str, list[str]] = {}
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
            translations.setdefault(word.strip().lower(), []).append(other.strip())
    if not translations:
        raise ConfigurationError(f"{path}: expected lines of a word and its translation, got none")
    return translations


def code_switch(
    items: Iterable[TaskItem | Rejected],
    config: CodeSwitchConfig,
    dictionaries: Sequence[Dictionary],
    facts: TaskFacts,
    seed: int,
) -> Iterator[TaskItem | Rejected]:
    """Yield the training rows with translated words and unchanged labels.

    Each replaced word draws a language and one of its translations, from a hash of seed, row and word index. The words
    of a longer translation get the label of the word, entity tags as in `expand_label`. Capitalization is kept.
    """

    def uniform(purpose: str, index: int, number: int) -> float:
        return float(hash64("code switch", purpose, seed, index, number) >> 11) / 2**53

    def translate(index: int, number: int, word: str) -> str:
        if uniform("word", index, number) >= config.word_rate:
            return word
        dictionary = dictionaries[int(uniform("language", index, number) * len(dictionaries))]
        if (choice := dictionary.get(word.lower())) is None:
            return word
        new = choice[int(uniform("translation", index, number) * len(choice))]
        return new[:1].upper() + new[1:] if word[:1].isupper() else new

    for item in items:
        if isinstance(item, Rejected) or uniform("sentence", item.index, 0) >= config.sentence_rate:
            yield item
        elif isinstance(item, TaggedWords):
            words = [translate(item.index, *pair).split() for pair in enumerate(item.words)]
            labels = [expand_label(facts.labels[tag], len(new)) for tag, new in zip(item.tags, words, strict=True)]
            yield replace(
                item,
                words=tuple(word for new in words for word in new),
                tags=tuple(facts.labels.index(label) for new in labels for label in new),
            )
        else:
            assert isinstance(item, LabeledText), "checked by `check_head`"
            texts, number = [], 0
            for text in item.texts:
                parts, end = [], 0
                for match in _WORD.finditer(text):
                    parts += [text[end : match.start()], translate(item.index, number, match[0])]
                    end, number = match.end(), number + 1
                texts.append("".join((*parts, text[end:])))
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
