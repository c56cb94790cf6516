"""The shared kernels of the corruptions: subsets, permutations, compositions, slots, roles. One call serves a batch.

Every kernel takes one key a row and sizes a row, and returns a `Ragged` or flat values. No Python runs per row, and
one call may hold rows of any sizes. Draws are words of `pipeline.seeding`, so a row's result depends on its own key
and sizes alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64, UInt64
from clozeline.pipeline.kernels.distributions import exponentials
from clozeline.pipeline.kernels.rates import MILLION
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import LENGTHS, POSITIONS, ROLES, SLOTS, below, mix

_GOLDEN: Final = 0x9E3779B97F4A7C15
_LOW: Final = np.uint64(0xFFFF)
_HIGH: Final = np.uint64(0xFFFFFFFFFFFF0000)
_NEVER: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_CACHED_WORDS: Final = 1 << 15
"""Words handled at once: two buffers of 256 KiB stay in a core's second-level cache."""


def offsets_of(lengths: Int64) -> Int64:
    """Return the start of each list, and the end of the last, for lists laid end to end; shape [n + 1]."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def rows_of(lists: Ragged) -> Int64:
    """Return the row of each value of a `Ragged`, shape [values]."""
    return np.repeat(np.arange(len(lists)), lists.lengths)


def running(values: NDArray[Any], offsets: Int64) -> Int64:
    """Return the sum of the values before each one in its own list (an exclusive cumulative sum a row)."""
    before: Int64 = np.cumsum(values, dtype=np.int64) - values
    starts = offsets[:-1][np.diff(offsets) > 0]
    counts = np.diff(offsets)[np.diff(offsets) > 0]
    before -= np.repeat(before[starts], counts)
    return before


def skip_words(keys: UInt64, words: Int64) -> UInt64:
    """Return keys whose word 0 is word `words` of the given keys, in every stream."""
    return keys + words.astype(np.uint64) * np.uint64(_GOLDEN)


def draw(keys: UInt64, stream: int, counts: Int64) -> UInt64:
    """Return the first `counts[i]` words of row i, flat: `pipeline.seeding.words` for rows of different sizes."""
    index = within(counts)
    index += (stream << 32) + 1
    return mix(np.repeat(keys, counts) + index.view(np.uint64) * np.uint64(_GOLDEN))


def within(counts: Int64) -> Int64:
    """Return the index of each value in its own list, for lists of these lengths laid end to end."""
    offsets = offsets_of(counts)
    index = np.arange(offsets[-1], dtype=np.int64)
    index -= np.repeat(offsets[:-1], counts)
    return index


def _fill(keys: UInt64, steps: UInt64, out: UInt64, spare: UInt64) -> None:
    """Write `mix(keys[:, None] + steps)` into `out` without allocating."""
    np.add(keys[:, None], steps, out=out)
    np.right_shift(out, np.uint64(30), out=spare)
    np.bitwise_xor(out, spare, out=out)
    np.multiply(out, np.uint64(0xBF58476D1CE4E5B9), out=out)
    np.right_shift(out, np.uint64(27), out=spare)
    np.bitwise_xor(out, spare, out=out)
    np.multiply(out, np.uint64(0x94D049BB133111EB), out=out)
    np.right_shift(out, np.uint64(31), out=spare)
    np.bitwise_xor(out, spare, out=out)


def _numbered_words(keys: UInt64, stream: int, sizes: Int64) -> Iterator[tuple[Any, UInt64]]:
    """Yield words with their index in the low 16 bits, hence unique, for a few rows at a time.

    Yields (rows, words [len(rows), widest]); columns after a row's size hold the greatest word. Rows come by rising
    size; the array of words is reused.
    """
    uniform = len(sizes) == 0 or bool((sizes == sizes[0]).all())
    order = np.arange(len(sizes)) if uniform else np.argsort(sizes, kind="stable")
    start = 0
    buffers = np.empty((2, 0), dtype=np.uint64)
    while start < len(order):
        rows_at_once = max(1, _CACHED_WORDS // max(1, int(sizes[order[start]])))
        rows: Any = slice(start, min(start + rows_at_once, len(order)))
        start = rows.stop
        if not uniform:
            rows = order[rows]
        widest = int(sizes[order[start - 1]])
        shape = (len(keys[rows]), widest)
        if buffers.shape[1] < shape[0] * widest:
            buffers = np.empty((2, shape[0] * widest), dtype=np.uint64)
        out, spare = (buffer[: shape[0] * widest].reshape(shape) for buffer in buffers)
        first = (stream << 32) + 1
        steps = np.arange(first, first + widest, dtype=np.uint64) * np.uint64(_GOLDEN)
        _fill(keys[rows], steps, out, spare)
        out &= _HIGH
        out |= np.arange(widest, dtype=np.uint64)
        if not uniform:
            out[np.arange(widest) >= sizes[rows][:, None]] = _NEVER
        yield rows, out


def choose(keys: UInt64, candidates: Int64, counts: Int64, stream: int = POSITIONS) -> Ragged:
    """Choose for each row a uniform subset of `counts[i]` of the numbers 0..candidates[i]-1, ascending (uint16).

    The numbers whose words are the smallest: a set, so the result does not depend on how numpy partitions.

    Args:
        keys: one key a row, shape [n].
        candidates: at most 65,535, shape [n].
        counts: at most `candidates`, shape [n].
        stream: which words to use.
    """
    return _smallest(counts, _numbered_words(keys, stream, candidates))


def choose_weighted(keys: UInt64, mean_times: Ragged, counts: Int64, stream: int = POSITIONS) -> Ragged:
    """Choose for each row `counts[i]` of its candidates, ascending (uint16), one by one in proportion to their weights.

    A candidate of weight w arrives at an exponential time of mean 1 / w, and the earliest are chosen. Their law is that
    of draws without replacement, each among those that are left (Efraimidis and Spirakis, 2006).

    Args:
        keys: one key a row, shape [n].
        mean_times: 1 / weight of each candidate, above 0 (float64); at most 65,535 a row.
        counts: at most the row's candidates, shape [n].
        stream: which words to use.

    Example: mean times 1 and 3 have the weights 1 and 1/3, so one of the two is the first with probability 3/4.
    """
    return _smallest(counts, _numbered_times(keys, stream, mean_times))


def _numbered_times(keys: UInt64, stream: int, mean_times: Ragged) -> Iterator[tuple[Any, UInt64]]:
    """Yield what `_numbered_words` does, with the bits of exponential times in place of words.

    The bits of positive floats rise with them, and the lowest 16 give way to the index.
    """
    sizes, offsets = mean_times.lengths, mean_times.offsets
    for rows, numbered in _numbered_words(keys, stream, sizes):
        index = np.arange(numbered.shape[1])
        outside = index >= sizes[rows][:, None]
        places = offsets[:-1][rows][:, None] + index
        places[outside] = 0
        times = exponentials(numbered >> np.uint64(16)) * mean_times.values.take(places)
        np.bitwise_and(times.view(np.uint64), _HIGH, out=numbered)
        numbered |= index.astype(np.uint64)
        numbered[outside] = _NEVER
        yield rows, numbered


def _smallest(counts: Int64, batches: Iterator[tuple[Any, UInt64]]) -> Ragged:
    """Return the low 16 bits of the `counts[i]` smallest words of each row, ascending."""
    offsets = offsets_of(counts)
    values = np.empty(offsets[-1], dtype=np.uint16)
    for rows, words in batches:
        wanted = counts[rows]
        largest = int(wanted.max(initial=0))
        if largest == 0:
            continue
        if largest < words.shape[1]:
            words.partition(largest - 1, axis=1)
        chosen = words[:, :largest]
        if (wanted == largest).all():
            picked = (chosen & _LOW).astype(np.uint16)
            picked.sort(axis=1)
            _place(values, offsets, rows, picked)
        else:
            chosen.sort(axis=1)
            inside = np.arange(largest) < wanted[:, None]
            picked = np.where(inside, chosen & _LOW, _LOW).astype(np.uint16)
            picked.sort(axis=1)
            places = offsets[:-1][rows][:, None] + np.arange(largest)
            values[places[inside]] = picked[inside]
    return Ragged(values, offsets)


def _place(values: NDArray[Any], offsets: Int64, rows: Any, picked: NDArray[Any]) -> None:
    if isinstance(rows, slice):
        values[offsets[rows.start] : offsets[rows.stop]] = picked.reshape(-1)
    else:
        values[offsets[:-1][rows][:, None] + np.arange(picked.shape[1])] = picked


def permute(keys: UInt64, counts: Int64, stream: int) -> Ragged:
    """Draw for each row a uniform permutation of 0..counts[i]-1 (uint16): the numbers in the order of their words."""
    return _sorted_numbers(counts, _numbered_words(keys, stream, counts))


def permute_near(keys: UInt64, counts: Int64, distance: int, stream: int) -> Ragged:
    """Draw for each row a permutation of 0..counts[i]-1 (uint16) that moves no number farther than `distance`.

    The numbers i in the order of i + u * (distance + 1), with u the high 32 bits of word i as a fraction (local shuffle
    of arXiv 1711.00043). Rows of c numbers need c + distance <= 65,535.
    """
    return _sorted_numbers(counts, _near_words(keys, stream, counts, distance))


def _near_words(keys: UInt64, stream: int, counts: Int64, distance: int) -> Iterator[tuple[Any, UInt64]]:
    for rows, numbered in _numbered_words(keys, stream, counts):
        places = np.arange(numbered.shape[1], dtype=np.uint64)
        numbered >>= np.uint64(32)
        numbered *= np.uint64(distance + 1)
        numbered += places << np.uint64(32)
        numbered <<= np.uint64(16)
        numbered |= places
        numbered[places >= counts[rows].astype(np.uint64)[:, None]] = _NEVER
        yield rows, numbered


def _sorted_numbers(counts: Int64, batches: Iterator[tuple[Any, UInt64]]) -> Ragged:
    """Return the low 16 bits of each row's words, in the order of the words."""
    offsets = offsets_of(counts)
    values = np.empty(offsets[-1], dtype=np.uint16)
    for rows, numbered in batches:
        numbered.sort(axis=1)
        numbers = (numbered & _LOW).astype(np.uint16)
        if (counts[rows] == numbers.shape[1]).all():
            _place(values, offsets, rows, numbers)
            continue
        inside = np.arange(numbers.shape[1]) < counts[rows][:, None]
        places = offsets[:-1][rows][:, None] + np.arange(numbers.shape[1])
        values[places[inside]] = numbers[inside]
    return Ragged(values, offsets)


def reorder(keys: UInt64, counts: Int64, stream: int) -> Ragged:
    """Draw for each row a uniform permutation that is not the identity (uint16); rows of one entry keep it.

    A row that draws the identity draws again from its next words; after 64 identities its first two are swapped.
    """
    orders = permute(keys, counts, stream)
    for attempt in range(1, 64):
        same = np.flatnonzero(_identities(orders))
        if len(same) == 0:
            return orders
        again = permute(skip_words(keys[same], attempt * counts[same]), counts[same], stream)
        places = np.repeat(orders.offsets[same] - again.offsets[:-1], counts[same])
        orders.values[places + np.arange(len(places))] = again.values
    first = orders.offsets[:-1][_identities(orders)]
    orders.values[first], orders.values[first + 1] = 1, 0
    return orders


def _identities(orders: Ragged) -> NDArray[np.bool_]:
    """Return rows of two or more entries that are the identity."""
    same = orders.lengths >= 2
    moved = orders.values != within(orders.lengths)
    same[rows_of(orders)[moved]] = False
    return same


def compose(keys: UInt64, totals: Int64, parts: Int64) -> Ragged:
    """Draw for each row a uniform composition of `totals[i]` in `parts[i]` positive parts (int64).

    Example: 7 in 3 parts with the cuts 2 and 3 is 2, 1, 4.
    """
    cuts = choose(keys, np.maximum(totals - 1, 0), np.maximum(parts - 1, 0), LENGTHS)
    offsets = offsets_of(parts)
    ends = np.empty(offsets[-1], dtype=np.int64)
    last = offsets[1:][parts > 0] - 1
    inner = np.ones(len(ends), dtype=np.bool_)
    inner[last] = False
    ends[inner] = cuts.values.astype(np.int64) + 1
    ends[last] = totals[parts > 0]
    before = np.concatenate((np.zeros(1, np.int64), ends))[:-1]
    before[offsets[:-1][parts > 0]] = 0
    return Ragged(ends - before, offsets)


def slots(keys: UInt64, kept: Int64, counts: Int64) -> Ragged:
    """Choose for each row `counts[i]` of the `kept[i] + 1` gaps around the kept tokens, ascending (int64).

    Spans in distinct gaps never touch, and every such placing is equally likely.
    """
    gaps = choose(keys, kept + 1, counts, SLOTS)
    return Ragged(gaps.values.astype(np.int64), gaps.offsets)


def roles(
    keys: UInt64,
    original: Ragged,
    *,
    mask: int,
    replaceable: Int64,
    mask_ppm: int,
    random_ppm: int,
    role_owner: Int64 | None = None,
) -> NDArray[Any]:
    """Return the id that replaces each selected token: [MASK], a random id or its own; flat, dtype of the ids.

    Each token draws its own role: rounding the shares per row would never draw a random id in a short row.

    Args:
        keys: one key a row.
        original: the selected ids.
        mask: id of [MASK].
        replaceable: ids a random replacement is drawn from; it may equal the original.
        mask_ppm: share of [MASK] in parts per million.
        random_ppm: share of random ids in parts per million.
        role_owner: for each token the (flat) one whose draw decides its role too; None: each draws its own. Random ids
            are each token's own in any case.
    """
    if mask_ppm == MILLION:
        return np.full_like(original.values, mask)
    words = draw(keys, ROLES, original.lengths)
    deciding = words if role_owner is None else words[role_owner]
    masked, changed = _share(deciding, mask_ppm), _share(deciding, mask_ppm + random_ppm)
    result = np.where(masked, original.values.dtype.type(mask), original.values)
    drawn = np.flatnonzero(changed & ~masked)
    result[drawn] = replaceable[below(words[drawn] & np.uint64(0xFFFFFFFF), len(replaceable))]
    return result


def _share(words: UInt64, ppm: int) -> NDArray[np.bool_]:
    """Return whether `below(high 32 bits, 10**6) < ppm`, in one comparison."""
    if ppm >= MILLION:
        return np.ones(len(words), dtype=np.bool_)
    return words < np.uint64(-(-(ppm << 32) // MILLION) << 32)
