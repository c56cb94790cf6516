"""Edit ragged rows of token ids without loops: add tokens, insert values, mark spans."""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.pipeline.kernels.sampling import offsets_of
from clozeline.pipeline.rows import Ragged


class IdSet:
    """A set of token ids, from a bitmap [vocabulary size]; fast for a few runs of ids."""

    def __init__(self, bitmap: NDArray[np.bool_]) -> None:
        self._bitmap = bitmap
        edges = np.flatnonzero(np.diff(np.concatenate(([False], bitmap, [False]))))
        self._runs = list(zip(edges[0::2].tolist(), edges[1::2].tolist(), strict=True))

    def mask(self, ids: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which of `ids` are in the set, same shape."""
        if not 1 <= len(self._runs) <= 4:
            return self._bitmap.take(ids)
        # one comparison for each run: unsigned ids below `start` wrap to large ones
        inside = (
            (ids - ids.dtype.type(start) if start else ids) < stop - start
            for start, stop in self._runs
        )
        return functools.reduce(np.logical_or, inside)

    def contains_any(self, ids: NDArray[np.generic]) -> bool:
        """Return whether any of `ids` is in the set."""
        if len(self._runs) == 1 and self._runs[0][0] == 0:
            return bool(len(ids) and ids.min() < self._runs[0][1])
        return bool(self.mask(ids).any())


def insert_at(values: NDArray[Any], positions: Int64, inserted: Any) -> NDArray[Any]:
    """Insert values so that they are at `positions` (distinct) of the result.

    All other values keep their order.

    Example: `insert_at([5, 6, 7], [0, 3], 9)` is [9, 5, 6, 9, 7].
    """
    out = np.empty(len(values) + len(positions), dtype=values.dtype)
    free = np.ones(len(out), dtype=np.bool_)
    free[positions] = False
    out[free] = values
    out[positions] = inserted
    return out


def add_special_tokens(ids: Ragged, head: int | None, tail: int | None) -> Ragged:
    """Return each row with a special token before and after it (None: no token), as a new array."""
    extra = (head is not None) + (tail is not None)
    lengths = ids.lengths
    offsets = ids.offsets - ids.offsets[0] + extra * np.arange(len(ids) + 1)
    content = ids.values[ids.offsets[0] : ids.offsets[-1]]

    # rows of equal length: write columns of a matrix
    if len(ids) and (lengths == lengths[0]).all():
        matrix = np.empty((len(ids), int(lengths[0]) + extra), dtype=content.dtype)
        first = 0 if head is None else 1
        matrix[:, first : first + int(lengths[0])] = content.reshape(len(ids), -1)
        if head is not None:
            matrix[:, 0] = head
        if tail is not None:
            matrix[:, -1] = tail
        return Ragged(matrix.reshape(-1), offsets)

    # ragged rows: insert all heads, then all tails
    positions = [offsets[:-1]] * (head is not None) + [offsets[1:] - 1] * (tail is not None)
    if not positions:
        return Ragged(content.copy(), offsets)
    tokens = np.array([id_ for id_ in (head, tail) if id_ is not None], dtype=content.dtype)
    return Ragged(
        insert_at(content, np.concatenate(positions), np.repeat(tokens, len(ids))), offsets
    )


def span_mask(total: int, starts: Int64, lengths: Int64) -> NDArray[np.bool_]:
    """Return a mask, shape [total], that is true inside the spans.

    `starts` are flat and ascend; spans do not overlap.
    """
    # lengths of the runs: between spans, span, between spans, span, ...
    runs = np.empty(2 * len(starts) + 1, dtype=np.int64)
    runs[1::2] = lengths
    ends = starts + lengths
    runs[0] = starts[0] if len(starts) else total
    if len(starts):
        runs[2:-1:2] = starts[1:] - ends[:-1]
        runs[-1] = total - ends[-1]
    inside = np.zeros(len(runs), dtype=np.bool_)
    inside[1::2] = True
    return np.repeat(inside, runs)


def span_positions(starts: Int64, lengths: Int64) -> Int64:
    """Return the positions inside all spans: starts [3, 9] with lengths [2, 1] give 3, 4, 9."""
    ends = np.cumsum(lengths)
    positions: Int64 = np.repeat(starts - ends + lengths, lengths)
    positions += np.arange(len(positions))
    return positions


def scalars(values: NDArray[Any], dtype: Any) -> Ragged:
    """Return one value per row as lists of length 1."""
    return Ragged(values.astype(dtype, copy=False), np.arange(len(values) + 1, dtype=np.int64))


def scatter_rows(lists: Ragged, rows: NDArray[np.intp], total: int) -> Ragged:
    """Return `total` rows: the lists at the given ascending rows; all other rows are empty."""
    lengths = np.zeros(total, dtype=np.int64)
    lengths[rows] = lists.lengths
    return Ragged(lists.values, offsets_of(lengths))


def trim(lists: Ragged) -> Ragged:
    """Drop the values before the first list and after the last; views of blocks may hold more."""
    first = int(lists.offsets[0])
    last = int(lists.offsets[-1])
    if first == 0 and last == len(lists.values):
        return lists
    return Ragged(lists.values[first:last], lists.offsets - first)


def shift_starts(starts: Ragged, head: int) -> Ragged:
    """Return the starts in rows that get `head` tokens in front; the first document includes them.

    Example: starts [0, 3] after a head of 1 token are [0, 4].
    """
    values = starts.values + starts.values.dtype.type(head)
    values[starts.offsets[:-1]] = 0
    return Ragged(values, starts.offsets)


def flatten_positions(inside: Ragged, offsets: Int64) -> Int64:
    """Return positions inside rows as positions in the stream in which the rows have `offsets`."""
    flat: Int64 = inside.values + np.repeat(offsets[: len(inside)], inside.lengths)
    return flat


def starts_in_rows(starts: Int64, offsets: Int64, dtype: str = "uint16") -> Ragged:
    """Convert ascending starts in a stream to starts inside the rows that the stream is cut into.

    Each row also has a start at 0. `offsets` are the bounds of the rows, shape [rows + 1]; no row
    is empty. Type uint16 fits rows of up to 65,536 tokens.

    Example: starts [0, 3, 5], rows of 4 and 3 tokens: [0, 3] and [0, 1].
    """
    inside = starts[(starts >= offsets[0]) & (starts < offsets[-1])]
    positions = np.union1d(offsets[:-1], inside)
    row = np.searchsorted(offsets, positions, side="right") - 1
    values = (positions - offsets[:-1][row]).astype(dtype)
    return Ragged(values, offsets_of(np.bincount(row, minlength=len(offsets) - 1)))
