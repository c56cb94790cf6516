"""Unigram and bigram models of words, the baselines of minimal pairs."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

_WORD: Final = re.compile(r"\w+|[^\w\s]")
_START: Final = "\n"
"""before the first word of a text; no word is a line break"""
DISCOUNT: Final = 0.75


class WordModel:
    """Counts of words and of pairs of words of a text.

    p(w) = (count + 1) / (all + kinds + 1), so that a word never seen has a share of its own. p(w after v) takes
    DISCOUNT from the count of each pair, and gives that to p(w): interpolated absolute discounting (Ney et al. 1994).

    Args:
        texts: to count; each begins on its own.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._words: Counter[str] = Counter()
        self._pairs: Counter[tuple[str, str]] = Counter()
        for text in texts:
            words = _WORD.findall(text)
            self._words.update(words)
            self._pairs.update(zip([_START, *words], words, strict=False))
        self._total = self._words.total()
        self._after: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        for (before, _), count in self._pairs.items():
            self._after[before] += count
            self._kinds[before] += 1

    @property
    def words(self) -> int:
        """Words that were counted."""
        return self._total

    def unigram(self, text: str) -> float:
        """Return the natural log-probability of a text's words, each by itself."""
        return sum(math.log(self._alone(word)) for word in _WORD.findall(text))

    def bigram(self, text: str) -> float:
        """Return the natural log-probability of a text's words, each after the one before."""
        return sum(math.log(self._following(before, word)) for before, word in _pairs(text))

    def _alone(self, word: str) -> float:
        return (self._words[word] + 1) / (self._total + len(self._words) + 1)

    def _following(self, before: str, word: str) -> float:
        seen = self._after[before]
        if not seen:
            return self._alone(word)
        kept = max(self._pairs[before, word] - DISCOUNT, 0.0)
        return (kept + DISCOUNT * self._kinds[before] * self._alone(word)) / seen


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    words = _WORD.findall(text)
    return zip([_START, *words], words, strict=False)
