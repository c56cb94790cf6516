"""Measures of a text for the filters, each quantity computed at most once a document and by whole arrays."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.text.word_tokens import word_tokens

_FEW: Final = 64
"""Below this number of items a dictionary is faster than sorting an array."""
_LETTER: Final = re.compile(r"[^\W\d_]")
_ALPHANUMERIC: Final = re.compile(r"[^\W_]")


class Duplicates(NamedTuple):
    """The number of pieces of a text that copy an earlier piece, and their characters."""

    pieces: int
    copies: int
    copied_chars: int


class _Repeats(NamedTuple):
    """The n-grams that occur more than once: where each begins, in order, and the number of its group."""

    at: NDArray[np.int64]
    groups: NDArray[np.int64]


_NONE: Final = _Repeats(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


class TextStatistics:
    """Measures of one text in stored form.

    Tokens are words and marks, see `word_tokens`. All lengths are characters.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.visited = 0
        """tokens and n-grams looked at so far: work that must grow linearly with the text"""
        self._repeats: dict[int, _Repeats] = {}

    @cached_property
    def lines(self) -> list[str]:
        """All lines, empty ones too."""
        return self.text.split("\n")

    @cached_property
    def letter_share(self) -> float:
        """Share of the words with a letter among those that white space divides; 0 without any."""
        words = self.text.split()
        self.visited += len(words)
        return sum([word[0].isalpha() or any(map(str.isalpha, word)) for word in words]) / max(1, len(words))

    @cached_property
    def tokens(self) -> list[str]:
        """All tokens, in order."""
        words = word_tokens(self.text)
        self.visited += len(words)
        return words

    @cached_property
    def _numbering(self) -> tuple[NDArray[np.int64], list[str]]:
        """Number of each token among the distinct ones, and these in order of appearance."""
        distinct = list(dict.fromkeys(self.tokens))
        numbers = dict(zip(distinct, range(len(distinct)), strict=True))
        ids = np.fromiter(map(numbers.__getitem__, self.tokens), dtype=np.int64, count=len(self.tokens))
        return ids, distinct

    @property
    def distinct_tokens(self) -> list[str]:
        """The different tokens, in order of appearance."""
        return self._numbering[1]

    @cached_property
    def _occurrences(self) -> NDArray[np.int64]:
        return np.bincount(self._numbering[0], minlength=len(self.distinct_tokens))

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        return np.fromiter(map(len, self.distinct_tokens), dtype=np.int64, count=len(self.distinct_tokens))

    @cached_property
    def _word_occurrences(self) -> NDArray[np.int64]:
        # The first character tells nearly always; the pattern is for tokens such as `'s` and `--x`.
        chosen = [token[0].isalnum() or _ALPHANUMERIC.search(token) is not None for token in self.distinct_tokens]
        return self._occurrences * np.array(chosen, dtype=np.bool_)

    @cached_property
    def words(self) -> int:
        """Tokens with a letter or a digit."""
        return int(self._word_occurrences.sum())

    @cached_property
    def mean_word_length(self) -> float:
        """Mean length of the tokens with a letter or a digit; 0 without such tokens."""
        return float(self._word_occurrences @ self._lengths) / self.words if self.words else 0.0

    @cached_property
    def tokens_with_letter(self) -> int:
        """Tokens with a letter."""
        chosen = [token[0].isalpha() or _LETTER.search(token) is not None for token in self.distinct_tokens]
        return int(self._occurrences @ np.array(chosen, dtype=np.bool_))

    @cached_property
    def duplicate_lines(self) -> Duplicates:
        """Copies among the lines that are not empty."""
        return _duplicates([line for line in self.lines if line])

    @cached_property
    def duplicate_paragraphs(self) -> Duplicates:
        """Copies among the paragraphs: what empty lines divide."""
        return _duplicates(self.text.split("\n\n"))

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Characters in all tokens before each, and in all."""
        return np.concatenate(([0], np.cumsum(self._lengths[self._numbering[0]])))

    def repeats(self, n: int) -> _Repeats:
        """Return the n-grams of tokens that occur more than once.

        An n-gram can only repeat where both (n-1)-grams in it do, so each n looks at what n - 1 has left: in prose
        nearly nothing from 5 on. Groups are exact, without hashing.
        """
        if n not in self._repeats:
            self._repeats[n] = self._grow(n) if n > 1 else self._repeated_tokens()
        return self._repeats[n]

    def _repeated_tokens(self) -> _Repeats:
        ids = self._numbering[0]
        at = np.flatnonzero(self._occurrences[ids] > 1)
        return _Repeats(at, ids[at])

    def _grow(self, n: int) -> _Repeats:
        at, groups = self.repeats(n - 1)
        if len(at) < 2:
            return _NONE
        near = np.flatnonzero(at[1:] == at[:-1] + 1)
        if len(near) < 2:
            return _NONE
        self.visited += len(near)
        pairs = groups[near] * (len(self.tokens) + 1) + groups[near + 1]
        kept, repeated = _grouped(pairs)
        return _Repeats(at[near[kept]], repeated)

    def top_ngram_chars(self, n: int) -> int:
        """Return length times frequency of the most frequent n-gram, joined by blanks; the first n-gram wins a tie."""
        if len(self.tokens) < n:
            return 0
        at, groups = self.repeats(n)
        if not len(at):
            return len(" ".join(self.tokens[:n]))
        counts = np.bincount(groups)[groups]
        first = int(counts.argmax())
        start = int(at[first])
        return int(self._starts[start + n] - self._starts[start] + n - 1) * int(counts[first])

    def duplicate_ngram_chars(self, n: int) -> int:
        """Count the characters in n-grams met before, from left to right; no token counts twice."""
        at, groups = self.repeats(n)
        seen: set[int] = set()
        chars = free = 0
        for position, group in zip(at.tolist(), groups.tolist(), strict=True):
            if position < free:
                continue
            if group in seen:
                chars += int(self._starts[position + n] - self._starts[position])
                free = position + n
            else:
                seen.add(group)
        self.visited += len(at)
        return chars


def _duplicates(pieces: list[str]) -> Duplicates:
    distinct = set(pieces)
    if len(distinct) == len(pieces):
        return Duplicates(len(pieces), 0, 0)
    copied = sum(map(len, pieces)) - sum(map(len, distinct))
    return Duplicates(len(pieces), len(pieces) - len(distinct), copied)


def _grouped(pairs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the pairs that occur more than once, and the group number of each."""
    if len(pairs) < _FEW:
        listed = pairs.tolist()
        numbers = {pair: number for number, (pair, count) in enumerate(Counter(listed).items()) if count > 1}
        few = [place for place, pair in enumerate(listed) if pair in numbers]
        return np.array(few, dtype=np.int64), np.array([numbers[listed[place]] for place in few], dtype=np.int64)
    order = pairs.argsort(kind="stable")
    ordered = pairs[order]
    # Of sorted pairs, those that equal a neighbour occur more than once.
    equal = ordered[1:] == ordered[:-1]
    often = np.zeros(len(ordered), dtype=np.bool_)
    often[1:] |= equal
    often[:-1] |= equal
    numbered = np.zeros(len(ordered), dtype=np.int64)
    np.cumsum(~equal, out=numbered[1:])
    groups = np.full(len(ordered), -1, dtype=np.int64)
    groups[order] = np.where(often, numbered, -1)
    kept = np.flatnonzero(groups >= 0)
    return kept, groups[kept]
