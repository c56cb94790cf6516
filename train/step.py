"""A rank's share of one or more global batches: rows of rounds, batch by batch and lane by lane, cut to micro-batches.

Small batches of one round are built several at a time: a handful of array operations then serves them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from train.arena import Column, Int64, Segment, gather

__all__ = ["Step"]


@dataclass(frozen=True, slots=True)
class _Lists:
    """A column that is not equally long: list i is `values[starts[i] : starts[i] + lengths[i]]`."""

    values: NDArray[Any]
    starts: Int64
    lengths: Int64


class Step:
    """Rows of consecutive global batches: the batches in order, each lane by lane.

    Args:
        segments: the stretches of rounds that make them up, in order; one only where `batches` is more than 1.
        lanes: lanes of the rank.
        batches: global batches, equally large.
        columns: list columns to take along.
    """

    def __init__(self, segments: Sequence[Segment], lanes: int, batches: int, columns: Sequence[str]) -> None:
        self._segments, self._lanes, self._batches = segments, lanes, batches
        self._columns = {name: self._column(name) for name in columns}
        self._weight = self._grouped([segment.arena.weight for segment in segments], np.float32).reshape(-1)
        self._origin = self._grouped([segment.arena.origin for segment in segments], np.int64).reshape(-1, 3)

    def micro_batch(self, start: int, stop: int) -> tuple[dict[str, Column], NDArray[np.float32], Int64]:
        """Columns, weight [B] and origin [B, 3] of rows `start .. stop`."""
        columns: dict[str, Column] = {}
        for name, column in self._columns.items():
            if isinstance(column, _Lists):
                columns[name] = gather(column.values, column.starts[start:stop], column.lengths[start:stop])
            else:
                columns[name] = column[start:stop]
        return columns, self._weight[start:stop], self._origin[start:stop]

    def _column(self, name: str) -> _Lists | Int64:
        lists = [segment.arena.lists(name) for segment in self._segments]
        matrices = [part.matrix for part in lists if part.matrix is not None]
        if len(matrices) == len(lists) and len({matrix.shape[1] for matrix in matrices}) == 1:
            return self._grouped(matrices, np.int64).reshape(-1, matrices[0].shape[1])
        places = [self._places(segment, name) for segment in self._segments]
        if len(lists) > 1:
            return self._compact([part.values for part in lists], places)
        starts, lengths = (self._grouped([array], np.int64).reshape(-1) for array in places[0])
        return _Lists(lists[0].values, starts, lengths)

    def _grouped(self, arrays: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
        """One array a segment, by slot, to [batches, lanes, rows, ...]: one strided copy that widens on the way."""
        parts = []
        for segment, array in zip(self._segments, arrays, strict=True):
            by_lane = array.reshape(self._lanes, segment.arena.length, *array.shape[1:])
            parts.append(by_lane[:, segment.start : segment.stop])
        rows = sum(part.shape[1] for part in parts) // self._batches
        grouped = np.empty((self._batches, self._lanes, rows, *parts[0].shape[2:]), dtype)
        if self._batches == 1:
            np.concatenate(parts, axis=1, out=grouped[0])
        else:
            grouped[...] = parts[0].reshape(self._lanes, self._batches, rows, *parts[0].shape[2:]).swapaxes(0, 1)
        return grouped

    def _places(self, segment: Segment, name: str) -> tuple[Int64, Int64]:
        """Starts and lengths of every slot of a segment's arena."""
        lists = segment.arena.lists(name)
        if lists.matrix is None:
            return lists.starts, lists.lengths
        slots, width = lists.matrix.shape
        return np.arange(slots) * width, np.full(slots, width)

    def _compact(self, values: Sequence[NDArray[Any]], places: Sequence[tuple[Int64, Int64]]) -> _Lists:
        """Rows of several rounds: only their own values are brought together, not whole rounds."""
        starts, lengths, found = [], [], []
        base = 0
        for segment, content, (first, size) in zip(self._segments, values, places, strict=True):
            rows = slice(segment.start, segment.stop)
            shape = (self._lanes, segment.arena.length)
            own, sizes = first.reshape(shape)[:, rows], size.reshape(shape)[:, rows]
            part = gather(content, own.reshape(-1), sizes.reshape(-1))
            starts.append((part.offsets[:-1] + base).reshape(own.shape))
            lengths.append(sizes)
            found.append(part.values)
            base += len(part.values)
        joined = (np.concatenate(parts, axis=1).reshape(-1) for parts in (starts, lengths))
        return _Lists(np.concatenate(found), *joined)
