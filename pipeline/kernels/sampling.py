"""Vectorized sampling for many rows: subsets, permutations, compositions, replacement tokens.

Every function takes a key and the sizes of each row, and returns a `Ragged` or flat values; rows
may differ in size. Random bits come from `clozeline.seeding`, so the result of a row depends only
on the key and the sizes of that row.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Bool, Int64, UInt64
from clozeline.pipeline.kernels.distributions import exponentials
from clozeline.pipeline.kernels.rates import MILLION
from clozeline.pipeline.rows import Ragged
from clozeline.seeding import LENGTHS, POSITIONS, ROLES, SLOTS, below, mix

_GOLDEN: Final = 0x9E3779B97F4A7C15
_LOW_16_BITS: Final = np.uint64(0xFFFF)
_HIGH_48_BITS: Final = np.uint64(0xFFFFFFFFFFFF0000)
_LARGEST_ENTRY: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
# 64-bit entries handled at once: a few arrays of 64 KiB fit in a core's cache without page faults.
_CACHED_ENTRIES: Final = 1 << 13


def offsets_of(lengths: Int64) -> Int64:
    """Return the offsets of concatenated lists from their lengths, shape [n + 1]."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def rows_of(lists: Ragged) -> Int64:
    """Return the row index of each value, shape [values]."""
    return np.repeat(np.arange(len(lists)), lists.lengths)


def exclusive_cumsum(values: NDArray[Any], offsets: Int64) -> Int64:
    """Return for each value the sum of the values before it in the same list."""
    before: Int64 = np.cumsum(values, dtype=np.int64) - values
    starts = offsets[:-1][np.diff(offsets) > 0]
    counts = np.diff(offsets)[np.diff(offsets) > 0]
    before -= np.repeat(before[starts], counts)
    return before


def skip_bits(keys: UInt64, counts: Int64) -> UInt64:
    """Return keys whose streams skip the first `counts[i]` entries of the given keys' streams."""
    return keys + counts.astype(np.uint64) * np.uint64(_GOLDEN)


def draw(keys: UInt64, stream: int, counts: Int64) -> UInt64:
    """Return `counts[i]` entries of 64 random bits for row i, flat; see `seeding.random_bits`."""
    index = list_indices(counts)
    index += (stream << 32) + 1
    return mix(np.repeat(keys, counts) + index.view(np.uint64) * np.uint64(_GOLDEN))


def list_indices(counts: Int64) -> Int64:
    """Return the index of each value in its list, for concatenated lists of these lengths."""
    offsets = offsets_of(counts)
    index = np.arange(offsets[-1], dtype=np.int64)
    index -= np.repeat(offsets[:-1], counts)
    return index


def _iter_bits(keys: UInt64, stream: int, sizes: Int64) -> Iterator[tuple[Any, UInt64]]:
    """Yield (rows, bits [rows, widest]) for a few rows at a time, in order of their size.

    An entry is 48 random bits and a 16-bit index, so all are different. Columns after the size of a
    row hold the largest value.
    """
    uniform = len(sizes) == 0 or bool((sizes == sizes[0]).all())
    order = np.arange(len(sizes)) if uniform else np.argsort(sizes, kind="stable")
    start = 0
    while start < len(order):
        # as many rows as fit in the cache
        rows_at_once = max(1, _CACHED_ENTRIES // max(1, int(sizes[order[start]])))
        rows: Any = slice(start, min(start + rows_at_once, len(order)))
        start = rows.stop
        if not uniform:
            rows = order[rows]
        index = np.arange(int(sizes[order[start - 1]]), dtype=np.uint64)

        # random bits above, column index below
        steps = (index + np.uint64((stream << 32) + 1)) * np.uint64(_GOLDEN)
        bits = mix(keys[rows][:, None] + steps)
        bits &= _HIGH_48_BITS
        bits |= index
        if not uniform:
            bits[index >= sizes[rows].astype(np.uint64)[:, None]] = _LARGEST_ENTRY
        yield rows, bits


def choose(keys: UInt64, candidates: Int64, counts: Int64, stream: int = POSITIONS) -> Ragged:
    """Choose `counts[i]` of the indices 0..candidates[i]-1 for each row, ascending (uint16).

    All subsets are equally likely. The indices with the smallest random bits are chosen, so the
    result does not depend on how numpy partitions. There is one key per row, shape [n];
    `candidates` are at most 65,535, shape [n].
    """
    return _take_smallest(counts, _iter_bits(keys, stream, candidates))


def choose_weighted(
    keys: UInt64, ids: Ragged, mean_times: NDArray[np.float64], counts: Int64
) -> Ragged:
    """Choose `counts[i]` candidates of each row without replacement, by weight; ascending (uint16).

    A candidate of weight w arrives at an exponential time of mean 1 / w, and the earliest are
    chosen. This has the distribution of successive weighted draws without replacement (Efraimidis
    and Spirakis, 2006). `ids` are the ids of the candidates, at most 65,535 per row. `mean_times`
    are 1 / weight of each id, above 0, shape [vocabulary size]. Keys and counts have shape [n].

    Example: the mean times 1 and 3 mean the weights 1 and 1/3, so the first candidate arrives first
    with probability 3/4.
    """
    return _take_smallest(counts, _iter_times(keys, ids, mean_times))


def _iter_times(
    keys: UInt64, ids: Ragged, mean_times: NDArray[np.float64]
) -> Iterator[tuple[Any, UInt64]]:
    """Yield batches like `_iter_bits`, with bits of exponential times instead of uniform bits."""
    sizes = ids.lengths
    offsets = ids.offsets

    for rows, bits in _iter_bits(keys, POSITIONS, sizes):
        # times [rows, widest]: exponential times scaled by the candidates' means
        index = np.arange(bits.shape[1])
        outside = index >= sizes[rows][:, None]
        positions = offsets[:-1][rows][:, None] + index
        positions[outside] = 0
        times = exponentials(bits >> np.uint64(16)) * mean_times.take(ids.values.take(positions))
        # positive floats sort like their bits; the index replaces the lowest 16
        np.bitwise_and(times.view(np.uint64), _HIGH_48_BITS, out=bits)
        bits |= index.astype(np.uint64)
        bits[outside] = _LARGEST_ENTRY
        yield rows, bits


def _take_smallest(counts: Int64, batches: Iterator[tuple[Any, UInt64]]) -> Ragged:
    """Return the indices of the `counts[i]` smallest entries of each row, ascending."""
    offsets = offsets_of(counts)
    values = np.empty(offsets[-1], dtype=np.uint16)

    for rows, bits in batches:
        row_counts = counts[rows]
        largest = int(row_counts.max(initial=0))
        if largest == 0:
            continue
        if largest < bits.shape[1]:
            bits.partition(largest - 1, axis=1)
        chosen = bits[:, :largest]

        if (row_counts == largest).all():
            picked = (chosen & _LOW_16_BITS).astype(np.uint16)
            picked.sort(axis=1)
            _write_rows(values, offsets, rows, picked)
        else:
            # counts differ: unused columns get the largest index, so that they sort last
            chosen.sort(axis=1)
            inside = np.arange(largest) < row_counts[:, None]
            picked = np.where(inside, chosen & _LOW_16_BITS, _LOW_16_BITS).astype(np.uint16)
            picked.sort(axis=1)
            _write_rows(values, offsets, rows, picked, inside)

    return Ragged(values, offsets)


def _write_rows(
    values: NDArray[Any],
    offsets: Int64,
    rows: Any,
    picked: NDArray[Any],
    inside: Bool | None = None,
) -> None:
    """Write a matrix of picked entries, or its entries `inside`, to the flat values of the rows."""
    if inside is None and isinstance(rows, slice):
        values[offsets[rows.start] : offsets[rows.stop]] = picked.reshape(-1)
        return
    positions = offsets[:-1][rows][:, None] + np.arange(picked.shape[1])
    if inside is not None:
        positions = positions[inside]
        picked = picked[inside]
    values[positions] = picked


def permute(keys: UInt64, counts: Int64, stream: int) -> Ragged:
    """Draw a uniform permutation of 0..counts[i]-1 for each row (uint16).

    The permutation sorts the indices by random bits.
    """
    offsets = offsets_of(counts)
    values = np.empty(offsets[-1], dtype=np.uint16)

    for rows, bits in _iter_bits(keys, stream, counts):
        bits.sort(axis=1)
        indices = (bits & _LOW_16_BITS).astype(np.uint16)
        if (counts[rows] == indices.shape[1]).all():
            _write_rows(values, offsets, rows, indices)
        else:
            _write_rows(
                values, offsets, rows, indices, np.arange(indices.shape[1]) < counts[rows][:, None]
            )

    return Ragged(values, offsets)


def reorder(keys: UInt64, counts: Int64, stream: int) -> Ragged:
    """Draw for each row a permutation other than the identity (uint16), all equally likely.

    A row that draws the identity draws again from the next random bits; after 64 tries its first
    two entries are swapped. A row of one entry stays unchanged.
    """
    orders = permute(keys, counts, stream)
    for attempt in range(1, 64):
        same = np.flatnonzero(_is_identity(orders))
        if len(same) == 0:
            return orders
        again = permute(skip_bits(keys[same], attempt * counts[same]), counts[same], stream)
        positions = np.repeat(orders.offsets[same] - again.offsets[:-1], counts[same])
        orders.values[positions + np.arange(len(positions))] = again.values
    return swap_identities(orders)


def swap_identities(orders: Ragged) -> Ragged:
    """Swap the first two entries of each order that is the identity; overwrite the input.

    Orders of a single entry stay unchanged.
    """
    first = orders.offsets[:-1][_is_identity(orders)]
    orders.values[first] = 1
    orders.values[first + 1] = 0
    return orders


def _is_identity(orders: Ragged) -> NDArray[np.bool_]:
    # an order of a single entry does not count as the identity
    same = orders.lengths >= 2
    moved = orders.values != list_indices(orders.lengths)
    same[rows_of(orders)[moved]] = False
    return same


def compose(keys: UInt64, totals: Int64, parts: Int64) -> Ragged:
    """Draw for each row a composition of `totals[i]` into `parts[i]` positive parts (int64).

    All compositions are equally likely.

    Example: 7 into 3 parts with the cuts 2 and 3 is 2, 1, 4.
    """
    # a composition is a set of distinct cuts: choose them, and end each row at its total
    cuts = choose(keys, np.maximum(totals - 1, 0), np.maximum(parts - 1, 0), LENGTHS)

    offsets = offsets_of(parts)
    ends = np.empty(offsets[-1], dtype=np.int64)
    last = offsets[1:][parts > 0] - 1
    inner = np.ones(len(ends), dtype=np.bool_)
    inner[last] = False
    ends[inner] = cuts.values.astype(np.int64) + 1
    ends[last] = totals[parts > 0]

    # parts are the differences of successive ends
    before = np.concatenate((np.zeros(1, np.int64), ends))[:-1]
    before[offsets[:-1][parts > 0]] = 0
    return Ragged(ends - before, offsets)


def choose_gaps(keys: UInt64, kept: Int64, counts: Int64) -> Ragged:
    """Choose `counts[i]` of the `kept[i] + 1` gaps around the unmasked tokens, ascending (int64).

    Spans in distinct gaps never touch, and every such arrangement is equally likely.
    """
    gaps = choose(keys, kept + 1, counts, SLOTS)
    return Ragged(gaps.values.astype(np.int64), gaps.offsets)


def draw_replacements(
    keys: UInt64,
    original: Ragged,
    *,
    mask: int,
    replaceable: Int64,
    mask_ppm: int,
    random_ppm: int,
    role_owner: Int64 | None = None,
) -> NDArray[np.generic]:
    """Draw the id that replaces each selected token, flat: [MASK], a random id or the original.

    Each token is decided independently; if shares were rounded per row, short rows would never get
    a random id. `mask_ppm` and `random_ppm` are parts per million. A random id is drawn for each
    token from `replaceable`, and may equal the original. `role_owner` is the flat index of the
    token whose draw decides for each token; None: each token is drawn separately.
    """
    if mask_ppm == MILLION:
        return np.full_like(original.values, mask)

    bits = draw(keys, ROLES, original.lengths)
    # the high 32 bits decide between [MASK], random and unchanged
    deciding = bits if role_owner is None else bits[role_owner]
    masked = _is_below_share(deciding, mask_ppm)
    changed = _is_below_share(deciding, mask_ppm + random_ppm)
    result = np.where(masked, original.values.dtype.type(mask), original.values)

    # the low 32 bits choose the random id
    random = np.flatnonzero(changed & ~masked)
    result[random] = replaceable[below(bits[random] & np.uint64(0xFFFFFFFF), len(replaceable))]
    return result


def _is_below_share(bits: UInt64, ppm: int) -> NDArray[np.bool_]:
    # `below(high 32 bits, 10**6) < ppm` in one comparison
    if ppm >= MILLION:
        return np.ones(len(bits), dtype=np.bool_)
    return bits < np.uint64(-(-(ppm << 32) // MILLION) << 32)
