"""Unigram and bigram word models, the baselines of minimal pairs."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

_WORD: Final = re.compile(r"\w+|[^\w\s]")
_START: Final = "\n"
"""marks the start of a text; no word is a line break"""
DISCOUNT: Final = 0.75


class WordModel:
    """Word and bigram counts of texts.

    p(w) = (count + 1) / (total + types + 1), so that unseen words have some probability. p(w | v) subtracts DISCOUNT
    from the count of each bigram and gives it to p(w): interpolated absolute discounting (Ney et al. 1994).
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
        """Number of counted words."""
        return self._total

    def unigram(self, text: str) -> float:
        """Return the natural log-probability of a text's words, each by itself."""
        return sum(math.log(self._unigram_probability(word)) for word in _WORD.findall(text))

    def bigram(self, text: str) -> float:
        """Return the natural log-probability of a text's words, each given the previous one."""
        total, words = 0.0, _WORD.findall(text)
        for before, word in zip([_START, *words], words, strict=False):
            probability = self._unigram_probability(word)
            if seen := self._after[before]:
                discounted = max(self._pairs[before, word] - DISCOUNT, 0.0)
                probability = (discounted + DISCOUNT * self._kinds[before] * probability) / seen
            total += math.log(probability)
        return total

    def _unigram_probability(self, word: str) -> float:
        return (self._words[word] + 1) / (self._total + len(self._words) + 1)
