"""Whole words, alone or in spans, taken in random order under a budget of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Bool, Int64, UInt64
from clozeline.pipeline.kernels.distributions import inverse_cdf
from clozeline.pipeline.kernels.ragged import IdSet, span_places
from clozeline.pipeline.kernels.sampling import draw, offsets_of, permute, running, skip_words, within
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import LENGTHS, POSITIONS


@dataclass(frozen=True, slots=True)
class RowWords:
    """The words of many rows.

    Args:
        starts: flat place of each word's first token, ascending, shape [words].
        lengths: tokens of each word, shape [words].
        offsets: words before each row, and all, shape [rows + 1].
        run_ends: for each word, the first later word that a row's end or a special token parts from it.
    """

    starts: Int64
    lengths: Int64
    offsets: Int64
    run_ends: Int64

    @property
    def tokens(self) -> Int64:
        """Return tokens of all words of each row, shape [rows]."""
        before = offsets_of(self.lengths)
        return before[self.offsets[1:]] - before[self.offsets[:-1]]


def find_words(ids: Ragged, opens: Bool, special: IdSet) -> RowWords:
    """Return words of rows that all have tokens.

    A word starts at a token that the tokenizer says opens one, at the start of a row and after a special token.
    Special tokens belong to no word.

    Args:
        ids: rows, none empty.
        opens: [tokens] bool, tokens that open a word by `Vocabulary.opens_word`; the starts of rows are set.
        special: ids that belong to no word.
    """
    opens[ids.offsets[:-1]] = True
    if not special.meets(ids.values):
        starts = np.flatnonzero(opens)
        offsets = np.searchsorted(starts, ids.offsets)
        return RowWords(starts, np.diff(starts, append=len(opens)), offsets, np.repeat(offsets[1:], np.diff(offsets)))
    marks = special.mask(ids.values)
    breaks = np.zeros(len(opens) + 1, dtype=np.bool_)
    breaks[ids.offsets] = True
    breaks[1:] |= marks
    bounds = np.flatnonzero(opens | breaks[:-1] | marks)
    is_word = ~marks[bounds]
    starts, lengths = bounds[is_word], np.diff(bounds, append=len(opens))[is_word]
    first_of_run, runs = np.flatnonzero(breaks[starts]), np.cumsum(breaks[starts])
    return RowWords(starts, lengths, np.searchsorted(starts, ids.offsets), np.append(first_of_run, len(starts))[runs])


def take_words(keys: UInt64, words: RowWords, budgets: Int64, thresholds: UInt64 | None = None) -> Bool:
    """Take whole words in random order under a budget; return which words are taken, shape [words].

    A span grows to the right over words of its run that are not taken, while the next word fits the remaining budget.
    A start that is taken or does not fit is passed over, which has the same law as drawing another start. In the end no
    remaining word fits the remaining budget. Where every word of a row is longer than its budget, the first word in
    order is taken whole.

    Args:
        keys: one key a row.
        words: the words.
        budgets: tokens to take in each row, at most as many as its words have.
        thresholds: table of `pipeline.kernels.distributions` for the number of words of a span; None: one word.

    Example: words of 1, 4, 1 and 1 tokens, budget 3, order 1, 0, 2, 3, no spans: words 0, 2 and 3.
    """
    counts = np.diff(words.offsets)
    queue = permute(keys, counts, POSITIONS).values + np.repeat(words.offsets[:-1], counts)
    taken = np.zeros(len(queue), dtype=np.bool_)
    remaining, places = budgets.copy(), words.offsets[:-1].copy()
    if thresholds is None:
        _take_prefix(words, queue, taken, remaining, places)
    rows = np.flatnonzero((remaining > 0) & (counts > 0))
    passed = np.full(len(rows), thresholds is None)
    while len(rows):
        again = rows[passed]
        places[again] = _next_fitting(words, queue, taken, remaining[again], places[again], words.offsets[1:][again])
        rows = rows[(remaining[rows] > 0) & (places[rows] < words.offsets[1:][rows])]
        first, tries = queue[places[rows]], places[rows] - words.offsets[rows]
        longest = np.ones_like(first) if thresholds is None else _drawn(keys[rows], tries, thresholds)
        size = _grow(words, taken, first, longest, remaining[rows])
        remaining[rows] -= size
        places[rows] += 1
        passed = (size == 0) | (places[rows] == words.offsets[1:][rows])
        rows, passed = rows[remaining[rows] > 0], passed[remaining[rows] > 0]
    nothing = np.flatnonzero((remaining == budgets) & (budgets > 0) & (counts > 0))
    taken[queue[words.offsets[nothing]]] = True
    return taken


def _take_prefix(words: RowWords, queue: Int64, taken: Bool, remaining: Int64, places: Int64) -> None:
    """Take words alone while the next one fits; brings `taken`, `remaining` and `places` up to date."""
    sizes = words.lengths[queue]
    counts = np.diff(words.offsets)
    fits = running(sizes, words.offsets) + sizes <= np.repeat(remaining, counts)
    taken[queue[fits]] = True
    row = np.repeat(np.arange(len(counts)), counts)[fits]
    remaining -= np.bincount(row, sizes[fits], minlength=len(counts)).astype(np.int64)
    places += np.bincount(row, minlength=len(counts))


def _next_fitting(words: RowWords, queue: Int64, taken: Bool, remaining: Int64, places: Int64, ends: Int64) -> Int64:
    """Return the place in the queue, from `places` on, of the next word that fits; `ends` if there is no such word."""
    counts = ends - places
    index = np.repeat(places, counts) + within(counts)
    word = queue[index]
    found = np.flatnonzero(~taken[word] & (words.lengths[word] <= np.repeat(remaining, counts)))
    bounds = offsets_of(counts)
    first = np.searchsorted(found, bounds[:-1])
    result = ends.copy()
    some = first < np.searchsorted(found, bounds[1:])
    result[some] = index[found[first[some]]]
    return result


def _drawn(keys: UInt64, tries: Int64, thresholds: UInt64) -> Int64:
    """Return the number of words that each try draws."""
    return inverse_cdf(draw(skip_words(keys, tries), LENGTHS, np.ones_like(tries)), thresholds)


def _grow(words: RowWords, taken: Bool, first: Int64, longest: Int64, remaining: Int64) -> Int64:
    """Take up to `longest` words from `first` on; returns how many tokens they have."""
    step = np.arange(int(longest.max(initial=1)))
    word = first[:, None] + step
    inside = (step < longest[:, None]) & (word < words.run_ends[first][:, None])
    word = np.minimum(word, len(taken) - 1)
    sizes = words.lengths[word]
    fits = inside & ~taken[word] & (np.cumsum(sizes, axis=1) <= remaining[:, None])
    fits = np.logical_and.accumulate(fits, axis=1)
    taken[word[fits]] = True
    total: Int64 = np.where(fits, sizes, 0).sum(axis=1)
    return total


def taken_tokens(words: RowWords, taken: Bool, ids: Ragged) -> Ragged:
    """Return flat places of the tokens of the taken words, ascending (int64)."""
    places = span_places(words.starts[taken], words.lengths[taken])
    return Ragged(places, np.searchsorted(places, ids.offsets))


def openings(places: Int64) -> Bool:
    """Return which of ascending places do not follow the place before directly: where maximal runs open."""
    opens = np.ones(len(places), dtype=np.bool_)
    opens[1:] = places[1:] != places[:-1] + 1
    return opens


def deciders(opens: NDArray[Any]) -> Int64:
    """Return for each entry the last one up to it that opens a unit; the first entry opens one."""
    return np.maximum.accumulate(np.where(opens, np.arange(len(opens)), 0))
