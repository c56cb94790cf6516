"""Gather the rows of one or more global batches from row buffers, and cut them into micro-batches.

Small batches of one round are gathered several at a time. Where all lanes read the same lane row of one set, a column
is one strided copy that also widens the values; in a mixture, or where lengths differ, it is one gather.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from clozeline.arrays import Int64
from clozeline.train.data.stream.buffer_pool import BufferPool
from clozeline.train.data.stream.padding import equal_lengths
from clozeline.train.data.stream.row_buffer import Column, Lists, Padded, RowBuffer, Segment, gather, without_padding

Shape: TypeAlias = tuple[int, int, int]
"""Global batches, lanes of the rank, lane rows of one batch."""


@dataclass(frozen=True, slots=True)
class _RoundView:
    """A view of a round's matrix [batches, lanes, lane rows, width], and the dtype to widen it to.

    `lengths`: of all rows, by batch and lane; None where no row is short.
    """

    cells: NDArray[Any]
    dtype: np.dtype[Any]
    batch_rows: int
    lengths: Int64 | None = None

    def __getitem__(self, rows: slice) -> Column:
        """Return rows of one batch by a strided, widening copy; ragged if a row is short."""
        matrix = self._matrix(rows)
        return matrix if self.lengths is None else without_padding(matrix, self.lengths[rows])

    def _matrix(self, rows: slice) -> NDArray[Any]:
        batch, first = divmod(rows.start, self.batch_rows)
        cells, number = self.cells[batch], rows.stop - rows.start
        if number == self.batch_rows:
            return self._widen(cells)
        lane, skip = divmod(first, cells.shape[1])
        lanes = cells[lane : -(-(first + number) // cells.shape[1])]
        if len(lanes) == 1:
            return self._widen(lanes[0, skip : skip + number])
        return self._widen(lanes)[skip : skip + number]

    def take(self, order: Int64) -> NDArray[Any] | Padded:
        matrix = self._widen(self.cells)[order]
        return matrix if self.lengths is None else Padded(matrix, self.lengths[order])

    def _widen(self, cells: NDArray[Any]) -> NDArray[Any]:
        copy: NDArray[Any] = cells.astype(self.dtype, order="C").reshape(-1, cells.shape[-1])
        return copy


@dataclass(frozen=True, slots=True)
class Cells:
    """Slots of one row buffer, and the batch rows that they become."""

    row_buffer: RowBuffer
    slots: Int64
    rows: Int64


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Rows of consecutive global batches: the batches in order, each lane by lane."""

    columns: dict[str, NDArray[Any] | Lists | Padded | _RoundView]
    weight: NDArray[np.float32] | None
    """None: all are 1."""
    origin: Int64

    @property
    def is_view(self) -> bool:
        """True if all columns are views of a round, so that only copies remain."""
        return all(isinstance(column, _RoundView) for column in self.columns.values())

    def width(self, name: str) -> int | None:
        """Return the length of a column's rows if all are equally long, else None."""
        column = self.columns[name]
        if isinstance(column, (Lists, Padded)):
            return None
        return int((column if isinstance(column, np.ndarray) else column.cells).shape[-1])

    def micro_batch(self, start: int, stop: int) -> tuple[dict[str, Column], NDArray[np.float32] | None, Int64]:
        """Return columns, weight [B] (None: all 1) and origin [B, 3] of rows `start .. stop`, all of one batch."""
        rows = slice(start, stop)
        columns: dict[str, Column] = {name: column[rows] for name, column in self.columns.items()}
        return columns, None if self.weight is None else self.weight[rows], self.origin[rows]

    def by_length(self, name: str, batch_rows: int) -> BatchRows:
        """Sort the rows of each batch by the length of a column, stably, shortest first."""
        column = self.columns[name]
        if isinstance(column, np.ndarray) or column.lengths is None:
            return self
        lengths = column.lengths.reshape(-1, batch_rows)
        order = np.argsort(lengths, axis=1, kind="stable") + np.arange(len(lengths))[:, None] * batch_rows
        order = order.reshape(-1)
        columns = {
            key: column[order] if isinstance(column, np.ndarray) else column.take(order)
            for key, column in self.columns.items()
        }
        return BatchRows(columns, None if self.weight is None else self.weight[order], self.origin[order])


def rows_of_segments(
    segments: Sequence[Segment], shape: Shape, columns: Sequence[str], pool: BufferPool, dtypes: Mapping[str, DTypeLike]
) -> BatchRows:
    """Return the rows of all lanes at the same lane rows of one set, in segments; exactly one for several batches.

    Equally long columns are taken from the pool, in their `dtypes`; others become int64.
    """
    if len(segments) > 1:
        return rows_of_cells(_cells(segments, shape), shape[0] * shape[1] * shape[2], columns, pool, dtypes)
    (segment,) = segments
    row_buffer = segment.row_buffer

    def by_batch(array: NDArray[Any]) -> NDArray[Any]:
        """Return a view of an array by slot as [batches, lanes, rows, ...]."""
        batches, lanes, count = shape
        by_lane = array.reshape(lanes, row_buffer.length, *array.shape[1:])[:, segment.start : segment.stop]
        return by_lane.reshape(lanes, batches, count, *array.shape[1:]).swapaxes(0, 1)

    def column(name: str) -> Lists | _RoundView:
        matrices = _matrices(name, [row_buffer])
        if matrices is None:
            return _lists(name, _cells(segments, shape), shape[0] * shape[1] * shape[2])
        matrix, lengths = matrices[0].matrix, by_batch(matrices[0].lengths).reshape(-1)
        short = None if (lengths == matrix.shape[1]).all() else lengths
        return _RoundView(by_batch(matrix), np.dtype(dtypes.get(name, np.int64)), shape[1] * shape[2], short)

    # copies: a batch may write into its weights
    weight, origin = by_batch(row_buffer.weight).copy().reshape(-1), by_batch(row_buffer.origin).copy().reshape(-1, 3)
    return BatchRows({name: column(name) for name in columns}, None if weight.all() else weight, origin)


def rows_of_cells(
    cells: Sequence[Cells], rows: int, columns: Sequence[str], pool: BufferPool, dtypes: Mapping[str, DTypeLike]
) -> BatchRows:
    """Return `rows` rows from any slots of any row buffers; other arguments as for `rows_of_segments`."""

    def column(name: str) -> NDArray[Any] | Lists | Padded:
        matrices = _matrices(name, [part.row_buffer for part in cells])
        if matrices is None:
            return _lists(name, cells, rows)
        width = matrices[0].matrix.shape[1]
        out, lengths = pool.take((rows, width), dtypes.get(name, np.int64)), np.full(rows, width)
        for part, padded in zip(cells, matrices, strict=True):
            out[part.rows], lengths[part.rows] = padded.matrix[part.slots], padded.lengths[part.slots]
        return out if (lengths == width).all() else Padded(out, lengths)

    weight, origin = np.zeros(rows, np.float32), np.full((rows, 3), -1, np.int64)
    for part in cells:
        weight[part.rows] = part.row_buffer.weight[part.slots]
        origin[part.rows] = part.row_buffer.origin[part.slots]
    return BatchRows({name: column(name) for name in columns}, None if weight.all() else weight, origin)


def _matrices(name: str, row_buffers: Sequence[RowBuffer]) -> list[Padded] | None:
    """Return a column's matrix in each row buffer; None unless all have one of the same width."""
    matrices = []
    for row_buffer in row_buffers:
        column = row_buffer.column(name)
        if isinstance(column, Lists):
            return None
        matrices.append(column if isinstance(column, Padded) else Padded(column, equal_lengths(*column.shape)))
    return matrices if len({padded.matrix.shape[1] for padded in matrices}) == 1 else None


def _cells(segments: Sequence[Segment], shape: Shape) -> list[Cells]:
    """Return the slots of all rows of the segments, and their rows in the batches."""
    _, lanes, count = shape
    lane = np.arange(lanes)[:, None]
    cells, before = [], 0
    for segment in segments:
        offset = np.arange(before, before + segment.stop - segment.start)
        slots = lane * segment.row_buffer.length + offset - before + segment.start
        rows = offset // count * (lanes * count) + lane * count + offset % count
        cells.append(Cells(segment.row_buffer, slots.reshape(-1), rows.reshape(-1)))
        before += segment.stop - segment.start
    return cells


def _lists(name: str, cells: Sequence[Cells], rows: int) -> Lists:
    """Return a column of `rows` lists; from several row buffers, the values are copied."""
    starts, lengths = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    if len(cells) == 1:
        lists = _lists_at(name, cells[0])
        starts[cells[0].rows], lengths[cells[0].rows] = lists.starts, lists.lengths
        return Lists(lists.values, starts, lengths)
    values: list[NDArray[Any]] = []
    base = 0
    for part in cells:
        lists = _lists_at(name, part)
        copied = gather(lists.values, lists.starts, lists.lengths)
        starts[part.rows], lengths[part.rows] = copied.offsets[:-1] + base, copied.lengths
        values.append(copied.values)
        base += len(copied.values)
    return Lists(np.concatenate(values), starts, lengths)


def _lists_at(name: str, cells: Cells) -> Lists:
    column = cells.row_buffer.column(name)
    if isinstance(column, Lists):
        return column.take(cells.slots)
    padded = column if isinstance(column, Padded) else Padded(column, equal_lengths(*column.shape))
    return Lists(padded.matrix.reshape(-1), cells.slots * padded.matrix.shape[1], padded.lengths[cells.slots])
