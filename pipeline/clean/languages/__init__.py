"""Language identifiers: return the language of a text and a confidence score."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from string import digits
from typing import Annotated, ClassVar, Final

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.text.language_codes import LanguageTable, names_language

Score = Annotated[float, Field(ge=0, le=1)]
_SHORT_CHARACTERS: Final = 100
_LONG_CHARACTERS: Final = 300
"""Characters at which the minimum score starts to rise, and at which it is `long_threshold`."""
LANGUAGE_KEYS: Final = {
    "language": "clean.language.keep",
    "language_score": "clean.language.threshold, clean.language.long_threshold",
}
"""The configuration key behind each reason of a language rule."""
UNDECIDED: Final = "und"
"""Code for an undecided language: a text that is too short, has no letters, or fits two languages
equally well."""


@config_class
class LanguageOptions:
    """Options of all identifiers."""

    keep: list[str] = field(default_factory=list)
    """language codes of the documents to keep, such as `de`, `deu` or `deu_Latn`, and `und` for
    undecided ones; empty keeps all"""
    threshold: Score = 0.65
    """minimum score, 0 to 1, of a kept document of up to 100 characters; no effect if `keep` is
    empty"""
    long_threshold: Score = 0.9
    """minimum score from 300 characters on; between 100 and 300 it rises linearly. Scores grow with
    the length, even those of wrong answers"""
    thresholds: dict[str, Score] = field(default_factory=dict)
    """minimum scores of single languages at any length, such as `{af: 0.5}`"""

    def minimum_score(self, language: str, characters: int) -> tuple[float, str]:
        """Return the minimum score for a language and a length, and the key that decides it."""
        thresholds = LanguageTable(self.thresholds)
        if (key := thresholds.find_key(language)) is not None:
            return thresholds[key], f"thresholds.{key}"
        if characters <= _SHORT_CHARACTERS or self.long_threshold <= self.threshold:
            return self.threshold, "threshold"
        share = min(1.0, (characters - _SHORT_CHARACTERS) / (_LONG_CHARACTERS - _SHORT_CHARACTERS))
        least = self.threshold + share * (self.long_threshold - self.threshold)
        return least, "long_threshold" if share == 1 else "threshold and long_threshold"


_ADDRESS: Final = re.compile(r"(?:https?://|www\.)\S+")
_ASCII: Final = re.compile(r"[\x00-\x7f]+")
_DIGITS: Final = re.compile(r"\d\d*")  # written so, it is faster than one repetition


def remove_noise(text: str) -> str:
    """Replace URLs and numbers, which say nothing about the language, with blanks."""
    # one pattern for both would try every character as the start of either
    if "http" in text or "www." in text:
        text = _ADDRESS.sub(" ", text)
    has_digits = any(map(text.__contains__, digits)) or _DIGITS.search(drop_ascii(text))
    return _DIGITS.sub(" ", text) if has_digits else text


def drop_ascii(text: str) -> str:
    """Return the characters of a text that are not ASCII."""
    return "" if text.isascii() else _ASCII.sub("", text)


_NO_LETTER: Final = re.compile(r"[\W\d_]+")
_ASCII_MARKS: Final = bytes(code for code in range(128) if not chr(code).isalpha())
_FEWEST_LETTERS: Final = 20
"""Letters below which a text is undecided."""
_LEAST_MARGIN: Final = 0.1
"""Least distance of the best score from the second; below it, a text is undecided."""


def count_letters(text: str) -> Counter[str]:
    """Return the number of each letter; all of ASCII, which no script divides, count as `a`."""
    letters = Counter(_NO_LETTER.sub("", drop_ascii(text)))
    ascii_letters = text.encode("ascii", "ignore").translate(None, _ASCII_MARKS)
    letters["a"] = len(ascii_letters)
    return letters


_SAMPLE_CHARACTERS: Final = 2000
_SAMPLE_PIECES: Final = 8
_LONGEST_CUT_WORD: Final = 40
_CUT_AT_START: Final = re.compile(rf"(?<=\S)\S{{1,{_LONGEST_CUT_WORD - 1}}}(?=\s)")
_CUT_AT_END: Final = re.compile(rf"(?<=\s)\S{{1,{_LONGEST_CUT_WORD - 1}}}\Z")


def sample_text(text: str) -> str:
    """Return a text, or at most 2,000 characters of it: evenly spaced pieces from start to end.

    A document may start with a menu, a license or a quotation in another language. Words cut by the
    edges of a piece are dropped, as far as blanks show where they end.
    """
    if len(text) <= _SAMPLE_CHARACTERS:
        return text
    size = _SAMPLE_CHARACTERS // _SAMPLE_PIECES - 1
    starts = [
        (len(text) - size) * number // (_SAMPLE_PIECES - 1) for number in range(_SAMPLE_PIECES)
    ]
    return " ".join(_trim_to_words(text, start, start + size) for start in starts)


def _trim_to_words(text: str, start: int, end: int) -> str:
    """Return a part of a text without the words that its edges cut; long words stay cut."""
    if (cut := _CUT_AT_START.match(text, start)) is not None:
        start = cut.end()
    cut = _CUT_AT_END.search(text, end - _LONGEST_CUT_WORD, end)
    if cut is not None and text[end : end + 1].strip():
        end = cut.start()
    return text[start:end]


class LanguageIdentifier(ABC):
    """Base class of language identifiers.

    A long text is judged by eight pieces from its start to its end, without URLs and digits.
    """

    VERSION: ClassVar[int]

    @abstractmethod
    def languages(self) -> frozenset[str]:
        """Return the codes of the known languages."""

    def identify(self, text: str) -> tuple[str, float]:
        """Return one of `languages()` or `und` if undecided, and a score in [0, 1]."""
        text = remove_noise(sample_text(text))
        letters = count_letters(text)
        if letters.total() < _FEWEST_LETTERS:
            return UNDECIDED, 0.0
        language, score, second = self.rank(text, letters)
        return (language if score - second >= _LEAST_MARGIN else UNDECIDED), score

    @abstractmethod
    def rank(self, text: str, letters: Counter[str]) -> tuple[str, float, float]:
        """Return the best language or `und`, its score in [0, 1], and the second highest score."""


def find_labels(code: str, labels: Iterable[str]) -> list[str]:
    """Return the labels of an identifier that a code names, sorted.

    A label of the same name is the only one: with lid.176, `sq` is not `als`, which is its label of
    Alemannic, though the code of Albanian in NLLB's.
    """
    known = sorted(labels)
    return [code] if code in known else [label for label in known if names_language(label, code)]
