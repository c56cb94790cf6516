"""Hold the rows of one round, all lanes of a rank together, so that a batch takes a few array copies.

A column is a matrix [lanes x length, width] if all rows, or all but a few, are equally long; otherwise flat values with
starts and lengths. Rows are shuffled once, when their block is loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.buffer_pool import BufferPool

_SHORT_SHARE: Final = 32
"""A load is padded to a matrix if at most one row in this many is short; a batch with a short row costs a gather."""

_LONG: Final = 20
"""Mean length from which lists are copied slice by slice; shorter ones by an index array."""

Column: TypeAlias = Ragged | Int64
"""A list column of a batch: a matrix [rows, width] where all rows are equally long, else ragged."""


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists of different lengths: list i is `values[starts[i] : starts[i] + lengths[i]]`."""

    values: NDArray[Any]
    starts: Int64
    lengths: Int64

    def __getitem__(self, rows: slice) -> Ragged:
        return gather(self.values, self.starts[rows], self.lengths[rows])

    def take(self, order: Int64) -> Lists:
        """Return the lists at `order`; the values stay where they are."""
        return Lists(self.values, self.starts[order], self.lengths[order])


@dataclass(frozen=True, slots=True)
class Padded:
    """Lists as rows of a matrix, few of them short: list i is `matrix[i, : lengths[i]]`."""

    matrix: NDArray[Any]
    lengths: Int64

    def __getitem__(self, rows: slice) -> Column:
        """Return rows as a matrix where none of them is short, else ragged."""
        return without_padding(self.matrix[rows], self.lengths[rows])

    def take(self, order: Int64) -> Padded:
        """Return the rows at `order`."""
        return Padded(self.matrix[order], self.lengths[order])


class RowBuffer:
    """Slots of one round: `lanes` x `length`, lane by lane. A slot without a row is a filler row."""

    def __init__(self, lanes: int, length: int, columns: Sequence[str], pool: BufferPool) -> None:
        self.lanes, self.length = lanes, length
        self.weight = np.zeros(lanes * length, np.float32)
        self.origin = np.full((lanes * length, 3), -1, np.int64)
        self._pool = pool
        self._lock = threading.Lock()
        self._matrix: dict[str, NDArray[Any]] = {}
        self._placed = dict.fromkeys(columns, 0)
        self._lists: dict[str, list[tuple[Int64 | slice, Lists]]] = {name: [] for name in columns}
        self._short: dict[str, list[tuple[Int64, Int64]]] = {name: [] for name in columns}
        self._columns: dict[str, NDArray[Any] | Lists | Padded] = {}

    def put(
        self,
        slots: Int64 | slice,
        columns: Mapping[str, Ragged],
        order: Int64,
        weight: NDArray[np.float32],
        origin: Int64,
    ) -> None:
        """Copy row `order[i]` of a load to slot i of `slots`; threads may fill different slots at the same time.

        `order` and `weight` [n] and `origin` [n, 3] (source, block, row) are in shuffled order.
        """
        self.weight[slots] = weight
        self.origin[slots] = origin
        for name, lists in self._lists.items():
            # a matrix if the rows are about equally long and fit the column; else keep views of the lists
            ragged = columns[name]
            equal = width = ragged.width
            if not equal and len(ragged.lengths):
                longest = int(ragged.lengths.max())
                short_rows = int((ragged.lengths < longest).sum())
                width = longest if short_rows * _SHORT_SHARE <= len(ragged.lengths) else None
            target = self._target(name, width, ragged.values.dtype, len(order)) if width else None
            if target is None or width is None:
                lists.append((slots, Lists(ragged.values, ragged.offsets[:-1][order], ragged.lengths[order])))
                continue
            # few short rows: copy them padded, and note their lengths
            if equal is None:
                target[slots] = _pad_rows(ragged, width, order)
                lengths = ragged.lengths[order]
                short = np.flatnonzero(lengths < width)
                indices = np.arange(slots.start, slots.stop) if isinstance(slots, slice) else slots
                self._short[name].append((indices[short], lengths[short]))
                continue
            # equally long rows: one copy in shuffled order
            first = int(ragged.offsets[0])
            source = ragged.values[first : first + len(ragged) * width].reshape(-1, width)
            if isinstance(slots, slice):  # clip: `raise` would copy through a buffer, and the order is in range
                np.take(source, order, axis=0, out=target[slots], mode="clip")
            else:
                target[slots] = source[order]

    def finish(self) -> None:
        """Join the rows into columns; call this once, after the last `put`."""
        for name in self._lists:
            self._columns[name] = self._join_column(name)
        self._lists = {}

    def column(self, name: str) -> NDArray[Any] | Lists | Padded:
        """Return a column by slot: a matrix [slots, width] if no row or few are short, else lists.

        A column that the set does not have has empty lists.
        """
        if name not in self._columns:
            empty = np.zeros(self.lanes * self.length, np.int64)
            self._columns[name] = Lists(np.empty(0, np.uint8), empty, empty)
        return self._columns[name]

    def _target(self, name: str, width: int, dtype: np.dtype[Any], rows: int) -> NDArray[Any] | None:
        """Return the column's matrix, allocated by the first load; None if width or type differ."""
        with self._lock:
            matrix = self._matrix.get(name)
            if matrix is None:
                matrix = self._matrix[name] = self._pool.take((self.lanes * self.length, width), dtype)
            if matrix.shape[1] != width or matrix.dtype != dtype:
                return None
            self._placed[name] += rows
            return matrix

    def _join_column(self, name: str) -> NDArray[Any] | Lists | Padded:
        # every slot is in the matrix
        matrix, slots = self._matrix.get(name), self.lanes * self.length
        if matrix is not None and self._placed[name] == slots:
            lengths = np.full(slots, matrix.shape[1])
            for where, short in self._short[name]:
                lengths[where] = short
            return Padded(matrix, lengths) if self._short[name] else matrix
        # lists: matrix rows and single lists over one array of values
        width = 0 if matrix is None else matrix.shape[1]
        starts, lengths = np.arange(slots) * width, np.zeros(slots, np.int64)
        if matrix is not None:
            lengths[self.origin[:, 0] >= 0] = width
        for where, short in self._short[name]:
            lengths[where] = short
        parts = [] if matrix is None else [matrix.reshape(-1)]
        base = 0 if matrix is None else matrix.size
        for slots_of, lists in self._lists[name]:
            starts[slots_of], lengths[slots_of] = lists.starts + base, lists.lengths
            parts.append(lists.values)
            base += len(lists.values)
        return Lists(np.concatenate(parts) if parts else np.empty(0, np.uint16), starts, lengths)


@dataclass(frozen=True, slots=True)
class Segment:
    """Lane rows `start .. stop` of a round, counted from its first."""

    row_buffer: RowBuffer
    start: int
    stop: int


def without_padding(matrix: NDArray[Any], lengths: Int64) -> Column:
    """Return rows cut to their lengths: the matrix where none is short, else ragged."""
    width = matrix.shape[1]
    if (lengths == width).all():
        return matrix
    return gather(matrix.reshape(-1), np.arange(len(matrix)) * width, lengths)


def _pad_rows(ragged: Ragged, width: int, order: Int64) -> NDArray[Any]:
    """Return the lists at `order` as rows of a matrix; a short list is followed by whatever follows it in memory."""
    values, starts = ragged.values, ragged.offsets[:-1][order]
    last = len(values) - width
    rows: NDArray[Any] = sliding_window_view(values, width)[np.minimum(starts, last)]
    for row in np.flatnonzero(starts > last):  # the last lists, after which fewer than `width` values follow
        rest = values[starts[row] :]
        rows[row, : len(rest)] = rest
    return rows


def gather(values: NDArray[Any], starts: Int64, lengths: Int64) -> Ragged:
    """Copy the lists `values[starts[i] : starts[i] + lengths[i]]` into one ragged column.

    Example: `gather(array([5, 6, 7, 8]), array([2, 0]), array([1, 2]))` holds [7] and [5, 6].
    """
    offsets = np.zeros(len(starts) + 1, np.int64)
    lengths.cumsum(out=offsets[1:])
    if offsets[-1] > _LONG * len(starts):  # slices: 4 times faster than an index array for lists of 200 values
        view = values.data
        parts = [view[start:stop] for start, stop in zip(starts.tolist(), (starts + lengths).tolist(), strict=True)]
        return Ragged(np.frombuffer(bytearray().join(parts), values.dtype), offsets)
    index = np.arange(offsets[-1])
    index += np.repeat(starts - offsets[:-1], lengths)
    return Ragged(values[index], offsets)
