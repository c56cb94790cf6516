"""Whole-word masking: choose words or spans of words in random order, within a token budget."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Bool, Int64, UInt64
from clozeline.pipeline.kernels.distributions import inverse_cdf
from clozeline.pipeline.kernels.ragged import IdSet, span_positions
from clozeline.pipeline.kernels.sampling import (
    draw,
    exclusive_cumsum,
    list_indices,
    offsets_of,
    permute,
    skip_bits,
)
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import LENGTHS, POSITIONS


@dataclass(frozen=True, slots=True)
class RowWords:
    """The words of many rows."""

    starts: Int64
    """flat position of the first token of each word, ascending, shape [words]"""
    lengths: Int64
    """tokens in each word, shape [words]"""
    run_ends: Int64
    """for each word the next word after the end of its row or after a special token"""
    offsets: Int64
    """index of the first word of each row, and the number of words, shape [rows + 1]"""
    tokens: Int64
    """tokens in the words of each row, shape [rows]"""


def find_words(ids: Ragged, opens: Bool, special: IdSet) -> RowWords:
    """Find the words of rows.

    A word starts at a token that opens one, at the start of a row and after a special token.
    Special tokens belong to no word. `opens` [tokens] says which tokens open a word, as in
    `Vocabulary.opens_word`; its entries at the starts of rows are overwritten.
    """
    marks = special.mask(ids.values)
    opens[ids.offsets[:-1][ids.lengths > 0]] = True

    if not marks.any():
        starts = np.flatnonzero(opens)
        offsets = np.searchsorted(starts, ids.offsets)
        run_ends = np.repeat(offsets[1:], np.diff(offsets))
        return RowWords(starts, np.diff(starts, append=len(opens)), run_ends, offsets, ids.lengths)

    # words also end before special tokens, which belong to no word
    breaks = np.zeros(len(opens) + 1, dtype=np.bool_)
    breaks[ids.offsets] = True
    breaks[1:] |= marks
    bounds = np.flatnonzero(opens | breaks[:-1] | marks)
    is_word = ~marks[bounds]
    starts = bounds[is_word]
    lengths = np.diff(bounds, append=len(opens))[is_word]

    # runs of words without a special token between them
    first_of_run = np.flatnonzero(breaks[starts])
    runs = np.cumsum(breaks[starts])
    run_ends = np.append(first_of_run, len(starts))[runs]
    tokens = np.diff(offsets_of((~marks).astype(np.int64))[ids.offsets]).astype(np.int64)
    return RowWords(starts, lengths, run_ends, np.searchsorted(starts, ids.offsets), tokens)


def split_long_words(words: RowWords, longest: Int64) -> RowWords:
    """Split the words of row i that are longer than `longest[i]` tokens into single tokens.

    Example: words of 1, 4 and 1 tokens, at most 3 tokens: six words of 1 token.
    """
    counts = np.diff(words.offsets)
    too_long = words.lengths > np.repeat(longest, counts)
    if not too_long.any():
        return words

    # parent: the old word of each new word; first: the first new word of each old word
    sizes = np.where(too_long, words.lengths, 1)
    parent = np.repeat(np.arange(len(sizes)), sizes)
    first = offsets_of(sizes)
    starts = words.starts[parent] + list_indices(sizes)
    lengths = np.where(too_long, 1, words.lengths)[parent]
    return RowWords(
        starts, lengths, first[words.run_ends[parent]], first[words.offsets], words.tokens
    )


def choose_words(
    keys: UInt64, words: RowWords, budgets: Int64, ids: Ragged, thresholds: UInt64 | None = None
) -> Ragged:
    """Choose `budgets[i]` tokens of row i as words in random order; return ascending positions.

    The positions are flat (int64). A word that is longer than the budget of its row is treated as
    words of one token each. A span grows to the right over unselected words of its run while the
    next word fits the remaining budget. A start that is selected already or does not fit is
    skipped, which is equivalent to drawing another start. If no remaining word fits, the first
    tokens of the next unselected word in the order use up the budget. So each row gets exactly its
    number of tokens.

    Args:
        keys: one key per row.
        words: the words of the rows.
        budgets: tokens to choose, at most as many as the words of the row have, shape [rows].
        ids: the rows.
        thresholds: a table of `distributions` for the number of words in a span; None: one word.

    Example: words of 1, 3, 1 and 1 tokens, budget 3, order 0, 1, 2, 3, no spans: words 0, 2 and 3.
    Words of 2, 2 and 2 tokens, budget 3, order 1, 2, 0: word 1, and the first token of word 2.
    """
    units = split_long_words(words, budgets)

    # queue: word indices in random order, row by row; positions: the next entry of each row
    counts = np.diff(units.offsets)
    queue = permute(keys, counts, POSITIONS).values + np.repeat(units.offsets[:-1], counts)
    taken = np.zeros(len(queue), dtype=np.bool_)
    remaining = budgets.copy()
    positions = units.offsets[:-1].copy()
    if thresholds is None:
        _take_prefix(units, queue, taken, remaining, positions)

    # one span per row and step, for rows with budget left
    rows = np.flatnonzero((remaining > 0) & (counts > 0))
    passed = np.full(len(rows), thresholds is None)

    while len(rows):
        # rows whose last start did not fit search for the next one that does
        again = rows[passed]
        positions[again] = _next_fitting(
            units, queue, taken, remaining[again], positions[again], units.offsets[1:][again]
        )
        rows = rows[(remaining[rows] > 0) & (positions[rows] < units.offsets[1:][rows])]

        # draw the number of words of the span, and take the words that fit
        first = queue[positions[rows]]
        tries = positions[rows] - units.offsets[rows]
        longest = np.ones_like(first)
        if thresholds is not None:
            longest = inverse_cdf(draw(skip_bits(keys[rows], tries), LENGTHS, longest), thresholds)
        size = _take_span(units, taken, first, longest, remaining[rows])

        remaining[rows] -= size
        positions[rows] += 1
        passed = (size == 0) | (positions[rows] == units.offsets[1:][rows])
        rows, passed = rows[remaining[rows] > 0], passed[remaining[rows] > 0]

    # where no word fits the remaining budget, the first tokens of the next word use it up
    sizes = np.where(taken, units.lengths, 0)
    unfinished = np.flatnonzero(remaining)
    if len(unfinished):
        untaken = np.flatnonzero(~taken[queue])
        next_word = queue[untaken[np.searchsorted(untaken, units.offsets[unfinished])]]
        sizes[next_word] = remaining[unfinished]

    chosen = np.flatnonzero(sizes)
    flat_positions = span_positions(units.starts[chosen], sizes[chosen])
    return Ragged(flat_positions, np.searchsorted(flat_positions, ids.offsets))


def _take_prefix(
    words: RowWords, queue: Int64, taken: Bool, remaining: Int64, positions: Int64
) -> None:
    """Take single words while the next one fits; update `taken`, `remaining` and `positions`."""
    sizes = words.lengths[queue]
    counts = np.diff(words.offsets)
    fits = exclusive_cumsum(sizes, words.offsets) + sizes <= np.repeat(remaining, counts)
    taken[queue[fits]] = True
    row = np.repeat(np.arange(len(counts)), counts)[fits]
    remaining -= np.bincount(row, sizes[fits], minlength=len(counts)).astype(np.int64)
    positions += np.bincount(row, minlength=len(counts))


def _next_fitting(
    words: RowWords, queue: Int64, taken: Bool, remaining: Int64, positions: Int64, ends: Int64
) -> Int64:
    """Return the index in the queue of the next word that fits, from `positions` on, or `ends`."""
    counts = ends - positions
    index = np.repeat(positions, counts) + list_indices(counts)
    word = queue[index]
    fitting = np.flatnonzero(~taken[word] & (words.lengths[word] <= np.repeat(remaining, counts)))
    # the first fitting entry of each row
    bounds = offsets_of(counts)
    first = np.searchsorted(fitting, bounds[:-1])
    result = ends.copy()
    some = first < np.searchsorted(fitting, bounds[1:])
    result[some] = index[fitting[first[some]]]
    return result


def _take_span(
    words: RowWords, taken: Bool, first: Int64, longest: Int64, remaining: Int64
) -> Int64:
    """Take up to `longest` words from `first` on; return the number of their tokens."""
    # word [rows, longest]: the candidates, clipped to valid indices
    step = np.arange(int(longest.max(initial=1)))
    word = first[:, None] + step
    inside = (step < longest[:, None]) & (word < words.run_ends[first][:, None])
    word = np.minimum(word, len(taken) - 1)
    # cut each span at the first word that is taken or too long
    sizes = words.lengths[word]
    fits = inside & ~taken[word] & (np.cumsum(sizes, axis=1) <= remaining[:, None])
    fits = np.logical_and.accumulate(fits, axis=1)
    taken[word[fits]] = True
    total: Int64 = np.where(fits, sizes, 0).sum(axis=1)
    return total


def run_starts(positions: Int64) -> Bool:
    """Return which of the ascending positions start a run of consecutive positions."""
    starts = np.ones(len(positions), dtype=np.bool_)
    starts[1:] = positions[1:] != positions[:-1] + 1
    return starts


def unit_starts(opens: NDArray[Any]) -> Int64:
    """Return for each entry the first entry of its unit; the first of all opens a unit."""
    return np.maximum.accumulate(np.where(opens, np.arange(len(opens)), 0))
