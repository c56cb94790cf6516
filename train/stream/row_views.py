"""A rank's share of one or more global batches: rows of rounds, batch by batch and lane by lane, cut to micro-batches.

Small batches of one round are built several at a time: a handful of array operations then serves them all. Where all
lanes stand at the same lane row of one set, a column is one strided copy that widens on the way; where they do not (a
mixture), or where rows are not equally long, it is one gather.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pipeline.arrays import Int64
from pipeline.rows import Ragged
from train.stream.buffer_pool import BufferPool
from train.stream.row_buffer import Column, RowBuffer, Segment, gather

__all__ = ["Cells", "Shape", "Step", "step_of_cells", "step_of_segments"]

Shape: TypeAlias = tuple[int, int, int]
"""Global batches, lanes of the rank, lane rows of one batch."""


@dataclass(frozen=True, slots=True)
class _Lists:
    """A column that is not equally long: list i is `values[starts[i] : starts[i] + lengths[i]]`."""

    values: NDArray[Any]
    starts: Int64
    lengths: Int64

    def rows(self, start: int, stop: int) -> Ragged:
        return gather(self.values, self.starts[start:stop], self.lengths[start:stop])

    def take(self, order: Int64) -> _Lists:
        return _Lists(self.values, self.starts[order], self.lengths[order])


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A column of equally long rows [B, width]."""

    values: NDArray[Any]

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        return self.values[start:stop]

    def take(self, order: Int64) -> _Matrix:
        return _Matrix(self.values[order])


@dataclass(frozen=True, slots=True)
class _InPlace:
    """Such a column that still stands in a round: [batches, lanes, lane rows, width], and the type it becomes."""

    cells: NDArray[Any]
    dtype: np.dtype[Any]
    batch_rows: int

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start .. stop`, all of one batch: one strided copy that widens on the way."""
        batch, first = divmod(start, self.batch_rows)
        cells, number = self.cells[batch], stop - start
        if number == self.batch_rows:
            return self._widened(cells)
        lane, skip = divmod(first, cells.shape[1])
        lanes = cells[lane : -(-(first + number) // cells.shape[1])]
        if len(lanes) == 1:
            return self._widened(lanes[0, skip : skip + number])
        return self._widened(lanes)[skip : skip + number]

    def take(self, order: Int64) -> _Matrix:
        return _Matrix(self._widened(self.cells)[order])

    def _widened(self, cells: NDArray[Any]) -> NDArray[Any]:
        copy: NDArray[Any] = cells.astype(self.dtype, order="C").reshape(-1, cells.shape[-1])
        return copy


_Column: TypeAlias = _Lists | _Matrix | _InPlace


@dataclass(frozen=True, slots=True)
class Cells:
    """Slots of one row_buffer, and the rows of the step that they become."""

    row_buffer: RowBuffer
    slots: Int64
    rows: Int64


@dataclass(frozen=True, slots=True)
class Step:
    """Rows of consecutive global batches: the batches in order, each lane by lane."""

    columns: dict[str, _Column]
    weight: NDArray[np.float32] | None
    """None: all are 1."""
    origin: Int64

    @property
    def in_place(self) -> bool:
        """Whether nothing is left to do but to copy rows."""
        return all(isinstance(column, _InPlace) for column in self.columns.values())

    def micro_batch(self, start: int, stop: int) -> tuple[dict[str, Column], NDArray[np.float32] | None, Int64]:
        """Columns, weight [B] (None: all 1) and origin [B, 3] of rows `start .. stop`."""
        columns: dict[str, Column] = {name: column.rows(start, stop) for name, column in self.columns.items()}
        weight = None if self.weight is None else self.weight[start:stop]
        return columns, weight, self.origin[start:stop]

    def by_length(self, name: str, batch_rows: int) -> Step:
        """The rows of each batch from the shortest to the longest list of a column; equal ones keep their order."""
        column = self.columns[name]
        if not isinstance(column, _Lists):
            return self
        lengths = column.lengths.reshape(-1, batch_rows)
        rows = np.argsort(lengths, axis=1, kind="stable") + np.arange(len(lengths))[:, None] * batch_rows
        order = rows.reshape(-1)
        columns: dict[str, _Column] = {key: found.take(order) for key, found in self.columns.items()}
        return Step(columns, None if self.weight is None else self.weight[order], self.origin[order])


def step_of_segments(
    segments: Sequence[Segment], shape: Shape, columns: Sequence[str], pool: BufferPool, dtypes: Mapping[str, DTypeLike]
) -> Step:
    """Rows of all lanes at the same lane rows of one set.

    Args:
        segments: the stretches of rounds that make them up, in order; one only where there are several batches.
        shape: batches, lanes and lane rows of a batch.
        columns: list columns to take along.
        pool: memory for equally long columns.
        dtypes: types of equally long columns; those not named become int64.
    """
    matrices = {name: _matrices(name, [segment.row_buffer for segment in segments]) for name in columns}
    cells = _cells(segments, shape) if None in matrices.values() else []

    def column(name: str) -> _Column:
        found = matrices[name]
        if found is None:
            return _lists(name, cells, shape[0] * shape[1] * shape[2])
        dtype = np.dtype(dtypes.get(name, np.int64))
        if len(segments) == 1:
            return _InPlace(_by_batch(segments[0], found[0], shape), dtype, shape[1] * shape[2])
        out = pool.take((*shape, found[0].shape[1]), dtype)
        _group(segments, found, out)
        return _Matrix(out.reshape(-1, out.shape[-1]))

    weight, origin = np.empty(shape, np.float32), np.empty((*shape, 3), np.int64)
    _group(segments, [segment.row_buffer.weight for segment in segments], weight)
    _group(segments, [segment.row_buffer.origin for segment in segments], origin)
    return Step(
        {name: column(name) for name in columns}, None if weight.all() else weight.reshape(-1), origin.reshape(-1, 3)
    )


def step_of_cells(
    cells: Sequence[Cells], rows: int, columns: Sequence[str], pool: BufferPool, dtypes: Mapping[str, DTypeLike]
) -> Step:
    """Rows gathered from any slots of any row_buffers; the arguments as for `step_of_segments`."""

    def column(name: str) -> _Column:
        found = _matrices(name, [part.row_buffer for part in cells])
        if found is None:
            return _lists(name, cells, rows)
        out = pool.take((rows, found[0].shape[1]), dtypes.get(name, np.int64))
        for part, matrix in zip(cells, found, strict=True):
            out[part.rows] = matrix[part.slots]
        return _Matrix(out)

    weight, origin = np.zeros(rows, np.float32), np.full((rows, 3), -1, np.int64)
    for part in cells:
        weight[part.rows] = part.row_buffer.weight[part.slots]
        origin[part.rows] = part.row_buffer.origin[part.slots]
    return Step({name: column(name) for name in columns}, None if weight.all() else weight, origin)


def _matrices(name: str, row_buffers: Sequence[RowBuffer]) -> list[NDArray[Any]] | None:
    """The matrices of a column that is equally long over all row_buffers."""
    found = [matrix for row_buffer in row_buffers if (matrix := row_buffer.lists(name).matrix) is not None]
    return found if len(found) == len(row_buffers) and len({matrix.shape[1] for matrix in found}) == 1 else None


def _group(segments: Sequence[Segment], arrays: Sequence[NDArray[Any]], out: NDArray[Any]) -> None:
    """One array a segment, by slot, into [batches, lanes, rows, ...]: one strided copy that widens on the way."""
    if len(segments) == 1:
        np.copyto(out, _by_batch(segments[0], arrays[0], out.shape))
        return
    parts = []
    for segment, array in zip(segments, arrays, strict=True):
        by_lane = array.reshape(out.shape[1], segment.row_buffer.length, *array.shape[1:])
        parts.append(by_lane[:, segment.start : segment.stop])
    np.concatenate(parts, axis=1, out=out[0])


def _by_batch(segment: Segment, array: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
    """A view of an row_buffer's array as [batches, lanes, rows, ...]."""
    batches, lanes, count = shape[:3]
    by_lane = array.reshape(lanes, segment.row_buffer.length, *array.shape[1:])[:, segment.start : segment.stop]
    return by_lane.reshape(lanes, batches, count, *array.shape[1:]).swapaxes(0, 1)


def _cells(segments: Sequence[Segment], shape: Shape) -> list[Cells]:
    """The same rows as `_group` takes, one by one."""
    _, lanes, count = shape
    lane = np.arange(lanes)[:, None]
    found, before = [], 0
    for segment in segments:
        place = np.arange(before, before + segment.stop - segment.start)
        slots = lane * segment.row_buffer.length + place - before + segment.start
        rows = place // count * (lanes * count) + lane * count + place % count
        found.append(Cells(segment.row_buffer, slots.reshape(-1), rows.reshape(-1)))
        before += segment.stop - segment.start
    return found


def _lists(name: str, cells: Sequence[Cells], rows: int) -> _Lists:
    """A column of lists; from several row_buffers only their own values are brought together, not whole rounds."""
    starts, lengths = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    if len(cells) == 1:
        values, first, size = _places(name, cells[0])
        starts[cells[0].rows], lengths[cells[0].rows] = first, size
        return _Lists(values, starts, lengths)
    found: list[NDArray[Any]] = []
    base = 0
    for part in cells:
        own = gather(*_places(name, part))
        starts[part.rows], lengths[part.rows] = own.offsets[:-1] + base, own.lengths
        found.append(own.values)
        base += len(own.values)
    return _Lists(np.concatenate(found), starts, lengths)


def _places(name: str, cells: Cells) -> tuple[NDArray[Any], Int64, Int64]:
    """Values of an row_buffer, with start and length of each of the cells."""
    lists = cells.row_buffer.lists(name)
    if lists.matrix is None:
        return lists.values, lists.starts[cells.slots], lists.lengths[cells.slots]
    width = lists.matrix.shape[1]
    return lists.values, cells.slots * width, np.full(len(cells.slots), width)
