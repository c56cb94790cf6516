"""Language identifiers: return the language of a text and a confidence score."""

import re
from abc import ABC, abstractmethod
from dataclasses import field
from typing import Annotated, ClassVar, Final

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.registries import LanguageComponent

Score = Annotated[float, Field(ge=0, le=1)]
_SHORT_CHARACTERS: Final = 100
_LONG_CHARACTERS: Final = 300
"""Package of the identifiers."""
LANGUAGE_KEYS: Final = {
    "language": "language.keep",
    "language_score": "language.threshold, language.long_threshold",
}
"""The key that rules each reason of a language rule."""
UNDECIDED: Final = "und"
"""Code of a text whose language is undecided: too short, no letters, or two languages equally
likely."""


@config_class
class LanguageOptions:
    """Options of every identifier."""

    keep: list[str] = field(default_factory=list)
    """language codes (ISO 639-1) of the documents to keep, and `und` for undecided ones; empty
    keeps all"""
    threshold: Score = 0.65
    """minimum score of a kept document of up to 100 characters, 0 to 1; no effect if `keep` is
    empty"""
    long_threshold: Score = 0.9
    """minimum score from 300 characters on, between them it rises in proportion: scores grow with
    the length, of wrong answers too"""
    thresholds: dict[str, Score] = field(default_factory=dict)
    """minimum scores of single languages at any length, such as `{af: 0.5}`"""

    def minimum_score(self, language: str, characters: int) -> tuple[float, str]:
        """Return the minimum score of a text of a language, by its length, and the key that decides it."""
        if language in self.thresholds:
            return self.thresholds[language], f"thresholds.{language}"
        if characters <= _SHORT_CHARACTERS or self.long_threshold <= self.threshold:
            return self.threshold, "threshold"
        share = min(1.0, (characters - _SHORT_CHARACTERS) / (_LONG_CHARACTERS - _SHORT_CHARACTERS))
        least = self.threshold + share * (self.long_threshold - self.threshold)
        return least, "long_threshold" if share == 1 else "threshold and long_threshold"


_ADDRESS: Final = re.compile(r"(?:https?://|www\.)\S+")
_DIGITS: Final = re.compile(r"\d+")


def remove_noise(text: str) -> str:
    """Replace each address and each other run of digits, which tell nothing of the language, with a blank."""
    # one pattern for both would look at every character as the start of either
    if "http" in text or "www." in text:
        text = _ADDRESS.sub(" ", text)
    return _DIGITS.sub(" ", text)


_SAMPLE_CHARACTERS: Final = 2000
_SAMPLE_PIECES: Final = 8
_LONGEST_CUT_WORD: Final = 40


def sample_text(text: str, characters: int = _SAMPLE_CHARACTERS) -> str:
    """Return a text, or at most so many of its characters: pieces at equal distances, from its start to its end.

    A document may begin with a menu, a license or a quotation in another language. Words that a
    piece cuts are left out, as far as blanks show where they end.
    """
    if len(text) <= characters:
        return text
    size = characters // _SAMPLE_PIECES - 1
    starts = [
        (len(text) - size) * number // (_SAMPLE_PIECES - 1) for number in range(_SAMPLE_PIECES)
    ]
    return " ".join(_trim_to_words(text, start, start + size) for start in starts)


def _trim_to_words(text: str, start: int, end: int) -> str:
    """Return a part of a text without the words that its edges cut; long words are cut."""
    if start and not text[start - 1].isspace():
        start += next(
            (
                index
                for index, letter in enumerate(text[start : start + _LONGEST_CUT_WORD])
                if letter.isspace()
            ),
            0,
        )
    if end < len(text) and not text[end].isspace():
        last = reversed(text[end - _LONGEST_CUT_WORD : end])
        end -= next((index for index, letter in enumerate(last) if letter.isspace()), 0)
    return text[start:end]


class LanguageIdentifier(ABC):
    """A language identifier."""

    VERSION: ClassVar[int]

    @abstractmethod
    def languages(self) -> frozenset[str]:
        """Return the codes of the known languages."""

    @abstractmethod
    def identify(self, text: str) -> tuple[str, float]:
        """Return the ISO 639-1 code (639-3 where 639-1 has none) and a score in [0, 1]; `und` where undecided."""


class LanguageRule:
    """An identifier with what decides whether a document stays: its language and its score."""

    def __init__(self, chosen: LanguageComponent) -> None:
        self._identifier: LanguageIdentifier = chosen.build()
        self._options: LanguageOptions = chosen.options

    def accepts(self, language: str) -> bool:
        """Return whether documents stay whose source states this language, with or without a region or script."""
        keep = self._options.keep
        return not keep or not {language, re.split("[-_]", language)[0]}.isdisjoint(keep)

    def judge(self, text: str) -> tuple[str, float, str, str]:
        """Return language and score of a text, and reason and detail of its rejection; empty if it is kept."""
        language, score = self._identifier.identify(text)
        options = self._options
        if not options.keep:
            return language, score, "", ""
        if language not in options.keep:
            return language, score, "language", language
        least, key = options.minimum_score(language, len(text))
        if score < least:
            return (
                language,
                score,
                "language_score",
                f"{language} {score:.3f} < {least:.3f} by {key}",
            )
        return language, score, "", ""
