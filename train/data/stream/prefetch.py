"""Load the rounds of a shard set ahead: threads read, verify, corrupt and shuffle blocks while the model computes.

Threads suffice: reading, hashing, decompressing and copying release the interpreter lock.
"""

from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, wait
from dataclasses import dataclass
from typing import Final

from clozeline.arrays import Int64
from clozeline.train.data.stream.buffer_pool import BufferPool
from clozeline.train.data.stream.order import Load, Round
from clozeline.train.data.stream.row_buffer import RowBuffer, Segment
from clozeline.train.data.stream.source import Source
from clozeline.train.data.stream.threads import LoaderThreads

_ORDERS_AT_ONCE: Final = 64  # blocks whose rows are shuffled together, in the calling thread


@dataclass
class _Pending:
    """A round that is being loaded."""

    round_: Round
    row_buffer: RowBuffer
    loads: list[Future[None]]
    finished: bool = False


class Prefetcher:
    """The rows of one set by lane row; loads the rounds after the last request ahead.

    Without `loaders`, the calling thread loads rows when they are requested. Lane rows from `end` on are filler (a
    finite pass); None: the set is endless.
    """

    def __init__(self, source: Source, loaders: LoaderThreads | None, ahead: int, end: int | None = None) -> None:
        self.source = source
        self._loaders = loaders
        self._ahead = ahead if loaders is not None else 0
        self._end = end
        self._pending: dict[int, _Pending] = {}
        self._pool = self._new_pool()
        self._closed = False

    def segments(self, position: int, count: int) -> list[Segment]:
        """Return `count` lane rows from `position` on, and drop the rounds before."""
        for start in [s for s, item in self._pending.items() if s + item.round_.length <= position]:
            del self._pending[start]
        segments, stop = [], position + count
        while position < stop:
            if self._end is not None and position >= self._end:
                filler = self._new_buffer(stop - position)
                filler.finish()
                segments.append(Segment(filler, 0, stop - position))
                break
            round_ = self._round(position)
            end = min(stop, round_.start + round_.length)
            segments.append(Segment(self._wait_for_rows(round_), position - round_.start, end - round_.start))
            position = end
        return segments

    def remaining(self, position: int) -> int:
        """Return the lane rows from a position to the end of its round or of the pass."""
        round_ = self._round(position)
        return max(0, min(round_.start + round_.length, self._end or round_.start + round_.length) - position)

    def clear(self) -> None:
        """Drop all loaded rows and their memory, and cancel loads that have not started."""
        pending, self._pending = list(self._pending.values()), {}
        self._pool = self._new_pool()
        for item in pending:
            for load in item.loads:
                load.cancel()

    def close(self) -> None:
        """Drop all rows and refuse later requests, also from other threads."""
        self._closed = True
        self.clear()

    def _new_pool(self) -> BufferPool:
        return BufferPool(self._ahead + 2)

    def _round(self, position: int) -> Round:
        return self.source.order.round_at(position, self.source.max_lane_rows)

    def _wait_for_rows(self, round_: Round) -> RowBuffer:
        """Start loading the rounds ahead, then wait for the rows of this one."""
        item = self._begin_loading(round_)
        # start the rounds ahead
        following = round_
        for _ in range(self._ahead):
            after = following.start + following.length
            if self._end is not None and after >= self._end:
                break
            following = self._round(after)
            self._begin_loading(following)
        # wait for this one
        if not item.finished:
            try:
                done, _ = wait(item.loads, return_when=FIRST_EXCEPTION)  # report an error even while another read hangs
                for load in done:
                    load.result()
            except BaseException:
                self.clear()  # the next request reads again
                raise
            item.row_buffer.finish()
            item.finished = True
        return item.row_buffer

    def _begin_loading(self, round_: Round) -> _Pending:
        """Start the loads of a round unless they are running; without threads, load it here."""
        self._check_open()
        if round_.start not in self._pending:
            item = _Pending(round_, self._new_buffer(round_.length), [])
            loads = list(self.source.order.loads(round_, *self.source.lanes))
            for group in (loads[n : n + _ORDERS_AT_ONCE] for n in range(0, len(loads), _ORDERS_AT_ONCE)):
                orders = self.source.order.row_orders(round_.epoch, [load.block for load in group])
                for load, order in zip(group, orders, strict=True):
                    rows = order[load.rows].copy()  # a view would keep the orders of the group alive
                    task = (load, rows, item.row_buffer)
                    if self._loaders is None:
                        self._run(*task)
                    else:
                        item.loads.append(self._loaders.submit(self._run, *task))
            self._pending[round_.start] = item
            self._check_open()  # another thread may have called `close` before these loads were recorded
        return self._pending[round_.start]

    def _check_open(self) -> None:
        if self._closed:
            self.clear()
            raise CancelledError

    def _run(self, load: Load, order: Int64, row_buffer: RowBuffer) -> None:
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
