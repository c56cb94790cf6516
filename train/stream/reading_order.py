"""Which stored rows stand at a position of a stream, in closed form: no block is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from train.stream.mixture import Phase
from train.stream.source import Source

__all__ = ["origins"]


def origins(phase: Phase, sources: Sequence[Source], position: int, count: int) -> NDArray[np.int64]:
    """Origin [lanes x count, 3] (source, stored block, row) of `count` lane rows of all ranks' lanes; -1 for filler.

    Args:
        phase: the phase of the position.
        sources: all sources of the stream.
        position: first lane row.
        count: lane rows of the global batch.
    """
    lanes, positions = np.arange(sources[0].order.lanes), np.arange(position, position + count)
    drawn = phase.drawn(lanes, positions)
    origin = np.full((len(lanes), count, 3), -1, np.int64)
    for k, number in enumerate(phase.sources):
        lane, at = np.nonzero(drawn == k)
        rows = phase.rows(k, lanes, positions)[lane, at]
        origin[lane, at] = _of_source(sources[number], lane, rows, count)
    return origin.reshape(-1, 3)


def _of_source(source: Source, lane: NDArray[np.int64], rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Origin of one lane row of each of the given lanes, by tables of at most `most` lane rows."""
    origin = np.full((len(rows), 3), -1, np.int64)
    lanes = source.order.lanes
    left = np.ones(len(rows), np.bool_)
    while left.any():
        turn = source.order.round_at(int(rows[left].min()), most)
        here = left & (rows < turn.start + turn.length)
        table = np.full((lanes * turn.length, 3), -1, np.int64)
        for load in source.order.loads(turn, 0, lanes):
            order = source.order.row_order(load.epoch, load.block)[load.rows]
            table[load.slots] = source.origin(load.block, order)
        origin[here] = table[lane[here] * turn.length + rows[here] - turn.start]
        left &= ~here
    return origin
