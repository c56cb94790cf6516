"""Rounds of a shard set, loaded ahead: threads read, check, corrupt and shuffle blocks while the model computes.

Threads suffice, because reading, hashing, decompressing and copying release the interpreter lock; there are no worker
processes, no shared memory and no locks between ranks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.example import ExampleBatch, Rows
from pipeline.shards import ShardSet
from pipeline.shards.columns import cut
from train.arena import Arena, Segment, Spare
from train.order import BlockOrder, Load, LogicalBlocks, Piece, Round

__all__ = ["Rounds", "Source", "StreamStats", "Transform"]

Transform: TypeAlias = Callable[[Rows, NDArray[np.uint16]], tuple[ExampleBatch, NDArray[np.uint8]]]
"""Online corruption: (rows, a variant for each) to examples and, for each, 0 or why it was skipped."""


@dataclass
class StreamStats:
    """Counters since the stream was opened."""

    wait_seconds: float = 0.0
    blocks: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Source:
    """What a load needs to know: the set, its order, the rank's lanes, and what becomes of the rows."""

    shards: ShardSet
    order: BlockOrder
    blocks: LogicalBlocks
    lanes: tuple[int, int]
    columns: Sequence[str]
    transform: Transform | None
    buffers: list[bytearray] = field(default_factory=list)
    """Memory of finished reads, to be read into again: fresh memory costs a page fault for every 4 KiB."""

    def origin(self, load: Load) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Shuffled order of the load's rows in its logical block, and their origin [n, 3]."""
        order = self.order.row_order(load.epoch, load.block)[load.start : load.stop]
        blocks, rows = self.blocks.stored(load.block)
        origin = np.zeros((len(order), 3), np.int64)
        origin[:, 1], origin[:, 2] = blocks[order], rows[order]
        return order, origin

    def read(self, pieces: Sequence[Piece], buffer: bytearray) -> Rows:
        """All rows of a logical block, which may be views of `buffer`."""
        first = self.shards.read_block(pieces[0].block, buffer)
        if len(pieces) == 1 and pieces[0].start == 0 and pieces[0].stop == len(first):
            return first
        parts = [first, *(self.shards.read_block(piece.block) for piece in pieces[1:])]
        return Rows.concatenate([cut(part, piece.start, piece.stop) for part, piece in zip(parts, pieces, strict=True)])

    def fill(self, load: Load, arena: Arena) -> tuple[int, int]:
        """Read a block and place the rank's rows; returns stored blocks and bytes read."""
        pieces = self.blocks.pieces(load.block)
        buffer = self._buffer()
        rows = self.read(pieces, buffer)
        order, origin = self.origin(load)
        weight = np.ones(len(order), np.float32)
        if self.transform is not None:
            if len(order) < len(rows):  # other ranks' rows are cut away before the work, not after it
                rows, order = rows.take(order), np.arange(len(order))
            variants = np.full(len(rows), load.epoch % 65536, np.uint16)
            rows, skips = self.transform(rows, variants)
            weight = (skips[order] == 0).astype(np.float32)
        if arena.place(load.slots, rows.columns, order, weight, origin):
            self.buffers.append(buffer)
        return len(pieces), sum(int(self.shards.index.length[piece.block]) for piece in pieces)

    def _buffer(self) -> bytearray:
        try:  # not a test first: another thread may take the last one in between
            return self.buffers.pop()
        except IndexError:
            return bytearray(int(self.shards.index.length.max()))


@dataclass
class _Pending:
    """A round on its way: its arena, and one future a load."""

    turn: Round
    arena: Arena
    loads: list[Future[tuple[int, int]]]
    finished: bool = False


class Rounds:
    """Gives the rows of any stretch of positions, and loads the rounds that follow.

    Args:
        source: where rows come from.
        io_threads: threads that load; 0 loads in the calling thread when rows are asked for.
        ahead: rounds to load before they are asked for.
        end: positions from here on are filler (a finite pass); None: the stream is endless.
        stats: counters to add to.
    """

    def __init__(self, source: Source, io_threads: int, ahead: int, end: int | None, stats: StreamStats) -> None:
        self._source = source
        self._ahead = ahead if io_threads else 0
        self._end = end
        self._stats = stats
        self._lock = threading.Lock()
        self._spare = Spare(most=2)
        self._pending: dict[int, _Pending] = {}
        self._pool = ThreadPoolExecutor(io_threads, thread_name_prefix="clozeline-io") if io_threads else None

    def segments(self, position: int, count: int) -> list[Segment]:
        """Loaded rows of `count` positions from `position` on; those before are let go."""
        self._let_go(position)
        segments, stop = [], position + count
        while position < stop:
            if self._end is not None and position >= self._end:
                segments.append(Segment(self._filler(stop - position), 0, stop - position))
                break
            turn = self._source.order.round_at(position)
            end = min(stop, turn.start + turn.length)
            segments.append(Segment(self._loaded(turn), position - turn.start, end - turn.start))
            position = end
        return segments

    def left(self, position: int) -> int:
        """Positions from here to the end of the round, filler not counted."""
        turn = self._source.order.round_at(position)
        return max(0, min(turn.start + turn.length, self._end or turn.start + turn.length) - position)

    def clear(self) -> None:
        """Forget all loaded rows: the next position is somewhere else."""
        pending, self._pending = list(self._pending.values()), {}
        for item in pending:
            for load in item.loads:
                load.cancel()

    def close(self) -> None:
        """Stop the threads and wait for the loads that have begun."""
        self.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _let_go(self, position: int) -> None:
        for start in [s for s, item in self._pending.items() if s + item.turn.length <= position]:
            item = self._pending.pop(start)
            if item.finished:
                item.arena.release()

    def _loaded(self, turn: Round) -> Arena:
        item = self._begun(turn)
        following = turn
        for _ in range(self._ahead):
            after = following.start + following.length
            if self._end is not None and after >= self._end:
                break
            following = self._source.order.round_at(after)
            self._begun(following)
        if not item.finished:
            begun = time.perf_counter()
            try:
                wait(item.loads)
                for load in item.loads:
                    load.result()
            except BaseException:
                self.clear()  # so that asking again reads again
                raise
            finally:
                self._stats.wait_seconds += time.perf_counter() - begun
            item.arena.finish()
            item.finished = True
        return item.arena

    def _begun(self, turn: Round) -> _Pending:
        """The round, with its loads under way (or done, where there are no threads)."""
        if turn.start not in self._pending:
            first, last = self._source.lanes
            arena = Arena(last - first, turn.length, self._source.columns, self._spare)
            item = _Pending(turn, arena, [])
            for load in self._source.order.loads(turn, first, last):
                item.loads.append(self._submit(load, arena))
            self._pending[turn.start] = item
        return self._pending[turn.start]

    def _submit(self, load: Load, arena: Arena) -> Future[tuple[int, int]]:
        if self._pool is not None:
            return self._pool.submit(self._run, load, arena)
        done: Future[tuple[int, int]] = Future()
        done.set_result(self._run(load, arena))
        return done

    def _run(self, load: Load, arena: Arena) -> tuple[int, int]:
        blocks, size = self._source.fill(load, arena)
        with self._lock:
            self._stats.blocks += blocks
            self._stats.bytes += size
        return blocks, size

    def _filler(self, length: int) -> Arena:
        first, last = self._source.lanes
        arena = Arena(last - first, length, self._source.columns, self._spare)
        arena.finish()
        return arena
