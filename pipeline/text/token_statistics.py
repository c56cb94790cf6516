"""Count repeated n-grams by numpy, and tokens by a table of them: the reference for the compiled form."""

from collections import Counter
from functools import cached_property
from itertools import filterfalse
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.text.word_tokens import shared_table

_FEW: Final = 64  # below this number of items, a dictionary is faster than sorting an array


class _Repeats(NamedTuple):
    """The n-grams that occur more than once: their token positions, ascending, and the group id of each."""

    at: NDArray[np.int64]
    groups: NDArray[np.int64]


class TableTokens:
    """The tokens of a text, as `clozeline.native.words.SplitText` has them."""

    def __init__(self, text: str) -> None:
        self._chunks = text.split()
        self._table = shared_table()
        self._ids = self._table.ids_of(self._chunks)
        self._word_lengths = self._table.word_lengths[self._ids]
        self.token_count = len(self._ids)
        self.words = int(np.count_nonzero(self._word_lengths))
        self.word_chars = int(self._word_lengths.sum())
        self.visited = len(self._ids)

    @cached_property
    def letter_share(self) -> float:
        self.visited += len(self._chunks)
        mixed = filterfalse(str.isalpha, self._chunks)  # most words are letters only
        without = sum([not word[0].isalpha() and not any(map(str.isalpha, word)) for word in mixed])
        return (len(self._chunks) - without) / max(1, len(self._chunks))

    @cached_property
    def tokens_with_letter(self) -> int:
        return int(np.count_nonzero(self._table.has_letter[self._ids]))

    def count_listed(self, words: frozenset[str]) -> int:
        return len(words.intersection(self._table.tokens[number] for number in self._ids.tolist()))

    @property
    def lengths(self) -> NDArray[np.int64]:
        return self._table.lengths[self._ids]

    def number_tokens(self) -> NDArray[np.int64]:
        return self._ids


class TokenNgrams:
    """The repeated n-grams of a text, from the id and the length of each token, shape [tokens]."""

    def __init__(self, ids: NDArray[np.int64], lengths: NDArray[Any]) -> None:
        self._ids, self._lengths = ids, lengths
        self._repeats: dict[int, _Repeats] = {}
        self.visited = 0

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Characters in all tokens before each token, and the total, shape [tokens + 1]."""
        starts = np.zeros(len(self._ids) + 1, dtype=np.int64)
        np.cumsum(self._lengths, out=starts[1:])
        return starts

    def _find_repeats(self, n: int) -> _Repeats:
        """Return the n-grams of tokens that occur more than once.

        An n-gram can only repeat where both of its (n-1)-grams do, so n only looks at what n - 1 left: in prose
        almost nothing from 5 on. Groups are exact, without hashing.
        """
        if n in self._repeats:
            return self._repeats[n]
        if n == 1:
            repeats = _Repeats(*_group_repeats(self._ids))
        else:
            at, groups = self._find_repeats(n - 1)
            # repeated (n-1)-grams at consecutive positions; the pair of their groups identifies the n-gram
            near = np.flatnonzero(at[1:] == at[:-1] + 1) if len(at) > 2 else at[:0]
            self.visited += len(near)
            if len(near) < 2:
                repeats = _Repeats(at[:0], groups[:0])
            else:
                kept, repeated = _group_repeats(groups[near] * (len(self._ids) + 1) + groups[near + 1])
                repeats = _Repeats(at[near[kept]], repeated)
        self._repeats[n] = repeats
        return repeats

    def top_ngram_chars(self, n: int) -> int:
        if len(self._ids) < n:
            return 0
        at, groups = self._find_repeats(n)
        if not len(at):
            return int(self._starts[n]) + n - 1
        counts = np.bincount(groups)[groups]
        first = int(counts.argmax())
        start = int(at[first])
        return int(self._starts[start + n] - self._starts[start] + n - 1) * int(counts[first])

    def duplicate_ngram_chars(self, n: int) -> int:
        at, groups = self._find_repeats(n)
        if not len(at):
            return 0
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


def _group_repeats(pairs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of the values that occur more than once, and the group id of each."""
    if len(pairs) < _FEW:
        listed = pairs.tolist()
        ids = {pair: index for index, (pair, count) in enumerate(Counter(listed).items()) if count > 1}
        few = [index for index, pair in enumerate(listed) if pair in ids]
        return np.array(few, dtype=np.int64), np.array([ids[listed[index]] for index in few], dtype=np.int64)
    # sort; values that equal a neighbor occur more than once
    order = pairs.argsort(kind="stable")
    ordered = pairs[order]
    equal = ordered[1:] == ordered[:-1]
    often = np.zeros(len(ordered), dtype=np.bool_)
    often[1:] |= equal
    often[:-1] |= equal
    # number the groups in sorted order, then scatter the ids back to the original order
    groups = np.full(len(ordered), -1, dtype=np.int64)
    groups[order] = np.where(often, np.concatenate(([0], np.cumsum(~equal))), -1)
    kept = np.flatnonzero(groups >= 0)
    return kept, groups[kept]
