"""Rows of a shard set, loaded ahead: threads read, check, corrupt and shuffle blocks while the model computes.

Threads suffice, because reading, hashing, decompressing and copying release the interpreter lock; there are no worker
processes, no shared memory and no locks between ranks.
"""

from __future__ import annotations

from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, wait
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from train.stream.buffer_pool import BufferPool
from train.stream.order import Load, Round
from train.stream.row_buffer import RowBuffer, Segment
from train.stream.source import Source
from train.stream.threads import Workers

__all__ = ["Prefetcher"]

_ORDERS_AT_ONCE: Final = 64  # blocks whose rows are shuffled together, outside the threads that wait for reads


@dataclass
class _Pending:
    """A round on its way: its row_buffer, and the loads that threads do."""

    turn: Round
    row_buffer: RowBuffer
    loads: list[Future[None]]
    finished: bool = False


class Prefetcher:
    """Gives the rows of any stretch of lane rows of one set, and loads the rounds that follow.

    Args:
        source: where rows come from.
        workers: threads that load; None loads in the calling thread when rows are asked for.
        ahead: rounds to load before they are asked for.
        end: lane rows from here on are filler (a finite pass); None: the set is endless.
    """

    def __init__(self, source: Source, workers: Workers | None, ahead: int, end: int | None = None) -> None:
        self.source = source
        self._workers = workers
        self._ahead = ahead if workers is not None else 0
        self._end = end
        self._pending: dict[int, _Pending] = {}
        self._pool = self._new_pool()
        self._closed = False

    def segments(self, position: int, count: int) -> list[Segment]:
        """Loaded rows of `count` lane rows from `position` on; those before are let go."""
        self._let_go(position)
        segments, stop = [], position + count
        while position < stop:
            if self._end is not None and position >= self._end:
                segments.append(Segment(self._filler(stop - position), 0, stop - position))
                break
            turn = self._round(position)
            end = min(stop, turn.start + turn.length)
            segments.append(Segment(self._loaded(turn), position - turn.start, end - turn.start))
            position = end
        return segments

    def left(self, position: int) -> int:
        """Lane rows from here to the end of the round, filler not counted."""
        turn = self._round(position)
        return max(0, min(turn.start + turn.length, self._end or turn.start + turn.length) - position)

    def clear(self) -> None:
        """Forget all loaded rows with their memory, and what has not begun to load."""
        pending, self._pending = list(self._pending.values()), {}
        self._pool = self._new_pool()
        for item in pending:
            for load in item.loads:
                load.cancel()

    def close(self) -> None:
        """Load nothing more, also for a thread that still asks."""
        self._closed = True
        self.clear()

    def _new_pool(self) -> BufferPool:
        """For what is loaded ahead, a round that is read, and one that batches still look into."""
        return BufferPool(self._ahead + 2)

    def _round(self, position: int) -> Round:
        return self.source.order.round_at(position, self.source.most)

    def _let_go(self, position: int) -> None:
        for start in [s for s, item in self._pending.items() if s + item.turn.length <= position]:
            del self._pending[start]

    def _loaded(self, turn: Round) -> RowBuffer:
        item = self._begun(turn)
        following = turn
        for _ in range(self._ahead):
            after = following.start + following.length
            if self._end is not None and after >= self._end:
                break
            following = self._round(after)
            self._begun(following)
        if not item.finished:
            try:
                done, _ = wait(item.loads, return_when=FIRST_EXCEPTION)  # no error waits for a read that hangs
                for load in done:
                    load.result()
            except BaseException:
                self.clear()  # so that asking again reads again
                raise
            item.row_buffer.finish()
            item.finished = True
        return item.row_buffer

    def _begun(self, turn: Round) -> _Pending:
        """The round, with its loads under way (or done, where there are no threads)."""
        self._refuse_closed()
        if turn.start not in self._pending:
            item = _Pending(turn, self._new_buffer(turn.length), [])
            loads = list(self.source.order.loads(turn, *self.source.lanes))
            for some in (loads[n : n + _ORDERS_AT_ONCE] for n in range(0, len(loads), _ORDERS_AT_ONCE)):
                orders = self.source.order.row_orders(turn.epoch, [load.block for load in some])
                for load, order in zip(some, orders, strict=True):
                    task = (
                        load,
                        order[load.rows].copy(),
                        item.row_buffer,
                    )  # a view would keep the orders of all of them
                    if self._workers is None:
                        self._run(*task)
                    else:
                        item.loads.append(self._workers.submit(self._run, *task))
            self._pending[turn.start] = item
            self._refuse_closed()  # another thread may have closed it without seeing these loads
        return self._pending[turn.start]

    def _refuse_closed(self) -> None:
        if self._closed:
            self.clear()
            raise CancelledError

    def _run(self, load: Load, order: NDArray[np.int64], row_buffer: RowBuffer) -> None:
        stats = self.source.stats
        with stats.lock:
            stats.in_flight += 1
        try:
            self.source.fill(load, order, row_buffer)
        finally:
            with stats.lock:
                stats.in_flight -= 1

    def _new_buffer(self, length: int) -> RowBuffer:
        first, last = self.source.lanes
        return RowBuffer(last - first, length, self.source.columns, self._pool)

    def _filler(self, length: int) -> RowBuffer:
        row_buffer = self._new_buffer(length)
        row_buffer.finish()
        return row_buffer
