"""Cutting and joining ragged rows of token ids: frames, spans, segments; all flat, all vectorised."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.pipeline.kernels.sampling import offsets_of
from clozeline.pipeline.rows import Ragged


class IdSet:
    """Membership of token ids in a fixed set, quick where the set is a few runs of neighbouring ids.

    Args:
        bitmap: [vocabulary size] bool.
    """

    _FEW = 4

    def __init__(self, bitmap: NDArray[np.bool_]) -> None:
        self._bitmap = bitmap
        edges = np.flatnonzero(np.diff(np.concatenate(([False], bitmap, [False]))))
        self._runs = list(zip(edges[0::2].tolist(), edges[1::2].tolist(), strict=True))

    def mask(self, ids: NDArray[Any]) -> NDArray[np.bool_]:
        """Return bool of the same shape as `ids`."""
        if not 1 <= len(self._runs) <= self._FEW:
            return self._bitmap.take(ids)
        return functools.reduce(np.logical_or, (self._in_run(ids, start, stop) for start, stop in self._runs))

    def meets(self, ids: NDArray[Any]) -> bool:
        """Return whether any of `ids` is in the set."""
        if len(self._runs) == 1 and self._runs[0][0] == 0:
            return bool(len(ids) and ids.min() < self._runs[0][1])
        return bool(self.mask(ids).any())

    @staticmethod
    def _in_run(ids: NDArray[Any], start: int, stop: int) -> NDArray[np.bool_]:
        """Compare once: unsigned numbers below `start` wrap to large ones."""
        return (ids - ids.dtype.type(start) if start else ids) < stop - start


def insert_at(between: NDArray[Any], places: Int64, values: Any) -> NDArray[Any]:
    """Return `values` at `places` (distinct), and the other entries in their order around them.

    Example: `insert_at([5, 6, 7], [0, 3], 9)` is [9, 5, 6, 9, 7].
    """
    out = np.empty(len(between) + len(places), dtype=between.dtype)
    free = np.ones(len(out), dtype=np.bool_)
    free[places] = False
    out[free] = between
    out[places] = values
    return out


def framed(ids: Ragged, head: int | None, tail: int | None) -> Ragged:
    """Return each row with a special token before and after it (None: no token); always a fresh array."""
    extra = (head is not None) + (tail is not None)
    lengths = ids.lengths
    offsets = ids.offsets - ids.offsets[0] + extra * np.arange(len(ids) + 1)
    content = ids.values[ids.offsets[0] : ids.offsets[-1]]
    if len(ids) and (lengths == lengths[0]).all():
        matrix = np.empty((len(ids), int(lengths[0]) + extra), dtype=content.dtype)
        first = 0 if head is None else 1
        matrix[:, first : first + int(lengths[0])] = content.reshape(len(ids), -1)
        if head is not None:
            matrix[:, 0] = head
        if tail is not None:
            matrix[:, -1] = tail
        return Ragged(matrix.reshape(-1), offsets)
    places = [offsets[:-1]] * (head is not None) + [offsets[1:] - 1] * (tail is not None)
    values = [id_ for id_ in (head, tail) if id_ is not None]
    if not places:
        return Ragged(content.copy(), offsets)
    woven = insert_at(content, np.concatenate(places), np.repeat(np.array(values, dtype=content.dtype), len(ids)))
    return Ragged(woven, offsets)


def span_mask(total: int, starts: Int64, lengths: Int64) -> NDArray[np.bool_]:
    """Return [total] bool, true inside the spans; `starts` ascend over the flat values, spans do not overlap."""
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


def span_places(starts: Int64, lengths: Int64) -> Int64:
    """Return the places in each span, spans laid end to end: starts [3, 9] of lengths [2, 1] are 3, 4, 9."""
    ends = np.cumsum(lengths)
    places: Int64 = np.repeat(starts - ends + lengths, lengths)
    places += np.arange(len(places))
    return places


def scalars(values: NDArray[Any], dtype: Any) -> Ragged:
    """Return one value a row, as lists of one value."""
    return Ragged(values.astype(dtype, copy=False), np.arange(len(values) + 1, dtype=np.int64))


def spread(lists: Ragged, rows: NDArray[np.intp], total: int) -> Ragged:
    """Return lists of the given ascending rows among `total` rows; the others are empty."""
    lengths = np.zeros(total, dtype=np.int64)
    lengths[rows] = lists.lengths
    return Ragged(lists.values, offsets_of(lengths))


def trimmed(lists: Ragged) -> Ragged:
    """Return the same lists without values before the first and after the last; views of blocks may hold more."""
    first, last = int(lists.offsets[0]), int(lists.offsets[-1])
    if first == 0 and last == len(lists.values):
        return lists
    return Ragged(lists.values[first:last], lists.offsets - first)


def after_head(starts: Ragged, head: int) -> Ragged:
    """Return starts inside rows that got `head` tokens in front; the head belongs to what started at 0.

    Example: starts [0, 3] after a head of 1 token are [0, 4].
    """
    values = starts.values + starts.values.dtype.type(head)
    values[starts.offsets[:-1]] = 0
    return Ragged(values, starts.offsets)


def starts_in_rows(starts: Int64, offsets: Int64, dtype: str = "uint16") -> Ragged:
    """Return starts over a stream as starts inside the rows that it is cut in; each row begins with 0.

    Args:
        starts: ascending places in the stream.
        offsets: bounds of the rows, shape [rows + 1], no row empty.
        dtype: of the result; uint16 holds the places of rows of up to 65,536 tokens.

    Example: starts [0, 3, 5], rows of 4 and 3 tokens: [0, 3] and [0, 1].
    """
    inside = starts[(starts >= offsets[0]) & (starts < offsets[-1])]
    places = np.union1d(offsets[:-1], inside)
    row = np.searchsorted(offsets, places, side="right") - 1
    values = (places - offsets[:-1][row]).astype(dtype)
    return Ragged(values, offsets_of(np.bincount(row, minlength=len(offsets) - 1)))
