"""Dictionary code-switching of training texts (CoSDA-ML, arXiv 2006.06402)."""

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from clozeline.pipeline.text.code_switch_options import CodeSwitchConfig
from clozeline.seeding import hash64

Dictionary: TypeAlias = Mapping[str, Sequence[str]]
"""Translations of each lower-case word."""
_WORD: Final = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class WordSwitcher:
    """Replaces words by translations.

    A hash of the seed, the row index and the word index decides.

    Each word draws a language and one of its translations; a word that is not in the dictionary
    stays. Capitalization is preserved.
    """

    config: CodeSwitchConfig
    dictionaries: Sequence[Dictionary]
    seed: int

    def chooses(self, index: int) -> bool:
        """Return whether words of the row or sentence with this index are replaced."""
        return self._uniform("sentence", index, 0) < self.config.sentence_rate

    def translate(self, index: int, number: int, word: str) -> str:
        """Return the word with index `number` of a row, or its translation."""
        if self._uniform("word", index, number) >= self.config.word_rate:
            return word
        dictionary = self.dictionaries[
            int(self._uniform("language", index, number) * len(self.dictionaries))
        ]
        if (choice := dictionary.get(word.lower())) is None:
            return word
        new = choice[int(self._uniform("translation", index, number) * len(choice))]
        return new[:1].upper() + new[1:] if word[:1].isupper() else new

    def translate_text(self, index: int, text: str, first: int = 0) -> tuple[str, int, int]:
        """Return a text with translated words, its number of words, and how many were replaced.

        `first` is the index of its first word.
        """
        words = _WORD.findall(text)
        new = [self.translate(index, number, word) for number, word in enumerate(words, first)]
        translations = iter(new)
        translated = _WORD.sub(lambda _: next(translations), text)
        return translated, len(words), sum(map(operator.ne, words, new))

    def _uniform(self, purpose: str, index: int, number: int) -> float:
        return float(hash64("code switch", purpose, self.seed, index, number) >> 11) / 2**53
