"""Select whole words, single or in spans, in random order within a token budget (whole-word masking)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Bool, Int64, UInt64
from clozeline.pipeline.kernels.distributions import inverse_cdf
from clozeline.pipeline.kernels.ragged import IdSet, span_positions
from clozeline.pipeline.kernels.sampling import draw, exclusive_cumsum, list_indices, offsets_of, permute, skip_bits
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import LENGTHS, POSITIONS


@dataclass(frozen=True, slots=True)
class RowWords:
    """The words of many rows."""

    starts: Int64  # flat position of each word's first token, ascending, shape [words]
    lengths: Int64  # tokens of each word, shape [words]
    run_ends: Int64  # for each word, the first later word behind the end of its row or behind a special token
    offsets: Int64  # index of each row's first word, and the number of words, shape [rows + 1]
    tokens: Int64  # tokens in words of each row, shape [rows]


def find_words(ids: Ragged, opens: Bool, special: IdSet) -> RowWords:
    """Find the words of rows, none of them empty.

    A word starts at a token that opens one (`opens`, [tokens] bool, `Vocabulary.opens_word` of the ids; changed at the
    starts of rows), at the start of a row and after a special token. Special tokens belong to no word.
    """
    marks = special.mask(ids.values)
    opens[ids.offsets[:-1]] = True
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
    starts, lengths = bounds[is_word], np.diff(bounds, append=len(opens))[is_word]
    # runs of words without a special token between them
    first_of_run, runs = np.flatnonzero(breaks[starts]), np.cumsum(breaks[starts])
    run_ends = np.append(first_of_run, len(starts))[runs]
    tokens = np.diff(offsets_of((~marks).astype(np.int64))[ids.offsets]).astype(np.int64)
    return RowWords(starts, lengths, run_ends, np.searchsorted(starts, ids.offsets), tokens)


def take_words(keys: UInt64, words: RowWords, budgets: Int64, thresholds: UInt64 | None = None) -> Bool:
    """Select whole words in random order within a token budget; return which words are selected, shape [words].

    A span grows to the right over unselected words of its run while the next word fits the remaining budget. A start
    that is selected already or does not fit is skipped, which is equivalent to drawing another start. Selection ends
    when no remaining word fits. If every word of a row exceeds its budget, the first word in random order is selected.
    A budget has at most as many tokens as the row's words; `thresholds` is a table of `distributions` for the number of
    words of a span; None: one word.

    Example: words of 1, 4, 1 and 1 tokens, budget 3, order 1, 0, 2, 3, no spans: words 0, 2 and 3.
    """
    # queue: word indices in random order, row by row; positions: each row's next entry in it
    counts = np.diff(words.offsets)
    queue = permute(keys, counts, POSITIONS).values + np.repeat(words.offsets[:-1], counts)
    taken = np.zeros(len(queue), dtype=np.bool_)
    remaining, positions = budgets.copy(), words.offsets[:-1].copy()
    if thresholds is None:
        _take_prefix(words, queue, taken, remaining, positions)
    # one span per row and step, for rows with budget left
    rows = np.flatnonzero((remaining > 0) & (counts > 0))
    passed = np.full(len(rows), thresholds is None)
    while len(rows):
        # rows whose last start did not fit search for the next one that does
        again = rows[passed]
        positions[again] = _next_fitting(
            words, queue, taken, remaining[again], positions[again], words.offsets[1:][again]
        )
        rows = rows[(remaining[rows] > 0) & (positions[rows] < words.offsets[1:][rows])]
        # draw the number of words of the span, and take the words that fit
        first, tries = queue[positions[rows]], positions[rows] - words.offsets[rows]
        longest = np.ones_like(first)
        if thresholds is not None:
            longest = inverse_cdf(draw(skip_bits(keys[rows], tries), LENGTHS, longest), thresholds)
        size = _take_span(words, taken, first, longest, remaining[rows])
        remaining[rows] -= size
        positions[rows] += 1
        passed = (size == 0) | (positions[rows] == words.offsets[1:][rows])
        rows, passed = rows[remaining[rows] > 0], passed[remaining[rows] > 0]
    # rows without any word that fits: take the first one
    nothing = np.flatnonzero((remaining == budgets) & (budgets > 0) & (counts > 0))
    taken[queue[words.offsets[nothing]]] = True
    return taken


def _take_prefix(words: RowWords, queue: Int64, taken: Bool, remaining: Int64, positions: Int64) -> None:
    """Take single words while the next one fits; updates `taken`, `remaining` and `positions`."""
    sizes = words.lengths[queue]
    counts = np.diff(words.offsets)
    fits = exclusive_cumsum(sizes, words.offsets) + sizes <= np.repeat(remaining, counts)
    taken[queue[fits]] = True
    row = np.repeat(np.arange(len(counts)), counts)[fits]
    remaining -= np.bincount(row, sizes[fits], minlength=len(counts)).astype(np.int64)
    positions += np.bincount(row, minlength=len(counts))


def _next_fitting(words: RowWords, queue: Int64, taken: Bool, remaining: Int64, positions: Int64, ends: Int64) -> Int64:
    """Return the index in the queue, from `positions` on, of the next word that fits; `ends` if there is none."""
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


def _take_span(words: RowWords, taken: Bool, first: Int64, longest: Int64, remaining: Int64) -> Int64:
    """Take up to `longest` words from `first` on; return how many tokens they have."""
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


def positions_of_words(words: RowWords, taken: Bool, ids: Ragged) -> Ragged:
    """Return the flat positions of the selected words' tokens, ascending (int64)."""
    chosen = np.flatnonzero(taken)
    positions = span_positions(words.starts[chosen], words.lengths[chosen])
    return Ragged(positions, np.searchsorted(positions, ids.offsets))


def run_starts(positions: Int64) -> Bool:
    """Return which of ascending positions start a run of consecutive positions, bool."""
    starts = np.ones(len(positions), dtype=np.bool_)
    starts[1:] = positions[1:] != positions[:-1] + 1
    return starts


def unit_starts(opens: NDArray[Any]) -> Int64:
    """Return, for each entry, the last entry up to it that opens a unit; the first entry opens one."""
    return np.maximum.accumulate(np.where(opens, np.arange(len(opens)), 0))
