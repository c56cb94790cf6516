"""One global batch's share of a rank: rows of one or more rounds, lane by lane, cut into micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.example import Ragged
from train.arena import Column, Int64, Segment, gather

__all__ = ["Step"]


@dataclass(frozen=True, slots=True)
class _Lists:
    """A column that is not equally long: list i is `values[starts[i] : starts[i] + lengths[i]]`."""

    values: NDArray[Any]
    starts: Int64
    lengths: Int64


class Step:
    """Rows of `count` positions of all lanes, in lane-major order.

    Args:
        segments: the stretches of rounds that make them up, in order.
        lanes: lanes of the rank.
        columns: list columns to take along.
    """

    def __init__(self, segments: Sequence[Segment], lanes: int, columns: Sequence[str]) -> None:
        self._segments, self._lanes = segments, lanes
        self._count = sum(segment.stop - segment.start for segment in segments)
        self._columns = {name: self._column(name) for name in columns}
        self._weight = np.empty((lanes, self._count), np.float32)
        self._origin = np.empty((lanes, self._count, 3), np.int64)
        at = 0
        for segment in segments:
            arena, rows = segment.arena, slice(segment.start, segment.stop)
            to = slice(at, at + segment.stop - segment.start)
            self._weight[:, to] = arena.weight.reshape(lanes, -1)[:, rows]
            self._origin[:, to] = arena.origin.reshape(lanes, -1, 3)[:, rows]
            at = to.stop

    def micro_batch(self, start: int, stop: int) -> tuple[dict[str, Column], NDArray[np.float32], Int64]:
        """Columns, weight [B] and origin [B, 3] of rows `start .. stop` of the lane-major order."""
        columns: dict[str, Column] = {}
        for name, column in self._columns.items():
            if isinstance(column, _Lists):
                columns[name] = gather(column.values, column.starts[start:stop], column.lengths[start:stop])
            else:
                columns[name] = column[start:stop]
        return columns, self._weight.reshape(-1)[start:stop], self._origin.reshape(-1, 3)[start:stop]

    def _column(self, name: str) -> _Lists | Int64:
        lists = [segment.arena.lists(name) for segment in self._segments]
        widths = {part.matrix.shape[1] if part.matrix is not None else -1 for part in lists}
        if len(widths) == 1 and -1 not in widths:
            return self._matrix([part.matrix for part in lists], widths.pop())
        if len(lists) == 1:
            starts, lengths = self._places(0, name)
            return _Lists(lists[0].values, starts.reshape(-1), lengths.reshape(-1))
        return self._compact(name)

    def _matrix(self, matrices: Sequence[NDArray[Any] | None], width: int) -> Int64:
        """The fast path: one strided copy a segment, widening to int64 on the way."""
        joined = np.empty((self._lanes, self._count, width), np.int64)
        at = 0
        for segment, matrix in zip(self._segments, matrices, strict=True):
            assert matrix is not None
            end = at + segment.stop - segment.start
            source = matrix.reshape(self._lanes, segment.arena.length, width)
            joined[:, at:end] = source[:, segment.start : segment.stop]
            at = end
        return joined.reshape(-1, width)

    def _places(self, number: int, name: str) -> tuple[Int64, Int64]:
        """Starts and lengths of a segment's rows in its arena's values, shape [lanes, rows]."""
        segment = self._segments[number]
        arena, rows = segment.arena, slice(segment.start, segment.stop)
        lists = arena.lists(name)
        shape = (self._lanes, arena.length)
        if lists.matrix is not None:
            width = lists.matrix.shape[1]
            starts = (np.arange(self._lanes * arena.length) * width).reshape(shape)[:, rows]
            return starts, np.full(starts.shape, width)
        return lists.starts.reshape(shape)[:, rows], lists.lengths.reshape(shape)[:, rows]

    def _compact(self, name: str) -> _Lists:
        """Rows of several rounds: only their own values are brought together, not whole rounds."""
        starts = np.empty((self._lanes, self._count), np.int64)
        lengths = np.empty_like(starts)
        values: list[NDArray[Any]] = []
        at = base = 0
        for number, segment in enumerate(self._segments):
            end = at + segment.stop - segment.start
            first, size = self._places(number, name)
            part: Ragged = gather(segment.arena.lists(name).values, first.reshape(-1), size.reshape(-1))
            starts[:, at:end] = (part.offsets[:-1] + base).reshape(self._lanes, -1)
            lengths[:, at:end] = size
            values.append(part.values)
            at, base = end, base + len(part.values)
        return _Lists(np.concatenate(values), starts.reshape(-1), lengths.reshape(-1))
