"""The rows of one round, of all lanes of a rank, in one place, so that a batch is a few whole-array copies.

Every lane changes its block at the same position. So the rows of a round stand in one array [lanes x length, width]
where all rows of a column are equally long, and as flat values with starts and lengths where they are not. Rows are
put into shuffled order once, when a block is loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import Int64
from pipeline.rows import Ragged
from train.stream.buffer_pool import BufferPool

__all__ = ["Column", "RowBuffer", "Segment", "gather"]

Column: TypeAlias = Ragged | Int64
"""A list column of a batch: a matrix [rows, width] where all rows are equally long, else ragged."""


@dataclass(frozen=True, slots=True)
class _Odd:
    """Rows of one load that did not fit the matrix: their slots, and where in `values` each one stands."""

    slots: Int64 | slice
    values: NDArray[Any]
    starts: Int64
    lengths: Int64


@dataclass(frozen=True, slots=True)
class _Lists:
    """A finished column: `matrix` if every slot is equally long, else values with starts and lengths per slot."""

    matrix: NDArray[Any] | None
    values: NDArray[Any]
    starts: Int64
    lengths: Int64


class RowBuffer:
    """Slots of one round: `lanes` x `length`, lane by lane. A slot that nothing is placed in is a filler row.

    Args:
        lanes: lanes of the rank.
        length: positions of the round.
        columns: list columns to keep.
        pool: where matrices come from.
    """

    def __init__(self, lanes: int, length: int, columns: Sequence[str], pool: BufferPool) -> None:
        self.lanes, self.length = lanes, length
        self.weight = np.zeros(lanes * length, np.float32)
        self.origin = np.full((lanes * length, 3), -1, np.int64)
        self._pool = pool
        self._lock = threading.Lock()
        self._matrix: dict[str, NDArray[Any]] = {}
        self._placed = dict.fromkeys(columns, 0)
        self._odd: dict[str, list[_Odd]] = {name: [] for name in columns}
        self._lists: dict[str, _Lists] = {}

    def place(
        self,
        slots: Int64 | slice,
        columns: Mapping[str, Ragged],
        order: Int64,
        weight: NDArray[np.float32],
        origin: Int64,
    ) -> bool:
        """Put row `order[i]` of a load into slot i of `slots`; loads of different slots may do so at once.

        Args:
            slots: where the rows go.
            columns: list columns of the load; those that nobody asked for are ignored.
            order: rows of the load in their shuffled order, shape [n].
            weight: of the rows, in shuffled order, shape [n].
            origin: source, block and row, in shuffled order, shape [n, 3].

        Returns:
            Whether everything was copied, so that the memory of `columns` may be used again.
        """
        copied = True
        self.weight[slots] = weight
        self.origin[slots] = origin
        for name in self._odd:
            ragged = columns[name]
            width = ragged.width
            target = self._target(name, width, ragged.values.dtype, len(order)) if width else None
            if target is None or width is None:
                odd = _Odd(slots, ragged.values, ragged.offsets[:-1][order], ragged.lengths[order])
                with self._lock:
                    self._odd[name].append(odd)
                copied = False
                continue
            first = int(ragged.offsets[0])
            source = ragged.values[first : first + len(ragged) * width].reshape(-1, width)
            if isinstance(slots, slice):  # clip: `raise` would copy through a buffer, and the order is in range
                np.take(source, order, axis=0, out=target[slots], mode="clip")
            else:
                target[slots] = source[order]
        return copied

    def finish(self) -> None:
        """To be called once, after the last load is placed."""
        for name in self._odd:
            self._lists[name] = self._finished(name)

    def lists(self, name: str) -> _Lists:
        """Return a finished column; one that the set lacks is empty in all rows."""
        if name not in self._lists:
            none = np.zeros(self.lanes * self.length, np.int64)
            self._lists[name] = _Lists(None, np.empty(0, np.uint8), none, none)
        return self._lists[name]

    def _target(self, name: str, width: int, dtype: np.dtype[Any], rows: int) -> NDArray[Any] | None:
        """The column's matrix; the first load decides its width, one of another width gets None."""
        with self._lock:
            matrix = self._matrix.get(name)
            if matrix is None:
                matrix = self._matrix[name] = self._pool.take((self.lanes * self.length, width), dtype)
            if matrix.shape[1] != width or matrix.dtype != dtype:
                return None
            self._placed[name] += rows
            return matrix

    def _finished(self, name: str) -> _Lists:
        matrix, odd, slots = self._matrix.get(name), self._odd[name], self.lanes * self.length
        width = 0 if matrix is None else matrix.shape[1]
        if matrix is not None and self._placed[name] == slots:
            none = np.empty(0, np.int64)
            return _Lists(matrix, matrix.reshape(-1), none, none)
        starts, lengths = np.arange(slots) * width, np.zeros(slots, np.int64)
        if matrix is not None:
            lengths[self.origin[:, 0] >= 0] = width
        parts = [] if matrix is None else [matrix.reshape(-1)]
        base = 0 if matrix is None else matrix.size
        for part in odd:
            starts[part.slots], lengths[part.slots] = part.starts + base, part.lengths
            parts.append(part.values)
            base += len(part.values)
        self._odd[name] = []
        return _Lists(None, np.concatenate(parts) if parts else np.empty(0, np.uint16), starts, lengths)


@dataclass(frozen=True, slots=True)
class Segment:
    """Positions `start .. stop` of a round, counted from its beginning."""

    row_buffer: RowBuffer
    start: int
    stop: int


def gather(values: NDArray[Any], starts: Int64, lengths: Int64) -> Ragged:
    """Lists `values[starts[i] : starts[i] + lengths[i]]` laid end to end, with one vectorised gather.

    Example: `gather(array([5, 6, 7, 8]), array([2, 0]), array([1, 2]))` holds [7] and [5, 6].
    """
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    index = np.arange(offsets[-1])
    index += np.repeat(starts - offsets[:-1], lengths)
    return Ragged(values[index], offsets)
