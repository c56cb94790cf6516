"""One shard set as the stream sees it: its order, this rank's lanes, and what becomes of a block that is read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.rows import ExampleBatch, Rows
from pipeline.shards import DamagedBlock, ShardSet
from pipeline.shards.columns import cut
from train.stream.order import BlockOrder, Load, LogicalBlocks, Piece
from train.stream.row_buffer import RowBuffer

__all__ = ["OnDamaged", "Source", "StreamStats", "Transform", "rows_at_once"]

Transform: TypeAlias = Callable[[Rows, NDArray[np.uint16]], tuple[ExampleBatch, NDArray[np.uint8]]]
"""Online corruption: (rows, a variant for each) to examples and, for each, 0 or why it was skipped."""
OnDamaged: TypeAlias = Literal["raise", "skip"]
_REREADS: Final = 2
_PAUSE_S: Final = 0.05
_FACTS: Final = 64  # bytes beside a row's columns: origin, weight, start and length of lists


@dataclass
class StreamStats:
    """Counters since the stream was opened, over all its sets."""

    blocks: int = 0
    bytes: int = 0
    in_flight: int = 0
    skipped_blocks: int = 0
    skipped_rows: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)


@dataclass(frozen=True)
class Source:
    """What a load needs to know: the set, its order, the rank's lanes, and what becomes of the rows.

    Args:
        shards: the set.
        number: of the set among those of the stream.
        order: of its rows over the lanes of all ranks.
        blocks: its blocks as the order counts them.
        lanes: first lane of this rank, and first one behind.
        columns: list columns that are delivered.
        transform: online corruption of samples.
        stats: of the stream.
        memory_bytes: for what is loaded at once.
        on_damaged: `raise`, or `skip`: rows of a block that cannot be read come as filler, nothing else moves.
        max_damaged_fraction: share of the set's blocks that may be skipped before the stream gives up.
    """

    shards: ShardSet
    number: int
    order: BlockOrder
    blocks: LogicalBlocks
    lanes: tuple[int, int]
    columns: Sequence[str]
    transform: Transform | None
    stats: StreamStats
    memory_bytes: int
    on_damaged: OnDamaged
    max_damaged_fraction: float
    buffers: list[bytearray] = field(default_factory=list)
    """Memory of finished reads, to be read into again: fresh memory costs a page fault for every 4 KiB."""
    masked: set[int] = field(default_factory=set)
    """Blocks found corrupt since the stream was opened."""

    @cached_property
    def most(self) -> int | None:
        """Lane rows of a round that are loaded at once; None: all."""
        first, last = self.lanes
        return rows_at_once(self.shards, last - first, self.order.lane_rows, self.memory_bytes)

    def origin(self, block: int, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where rows of a logical block stand: source, stored block and row, shape [n, 3]."""
        origin = np.empty((len(order), 3), np.int64)
        origin[:, 0] = self.number
        origin[:, 1], origin[:, 2] = self.blocks.stored(block, order)
        return origin

    def fill(self, load: Load, order: NDArray[np.int64], row_buffer: RowBuffer) -> None:
        """Read a logical block and place the rank's rows of it.

        Args:
            load: which block, for which slots.
            order: rows of the block in the order of the slots.
            row_buffer: where they go.
        """
        pieces = self.blocks.pieces(load.block)
        buffer = self._buffer()
        parts = [self._read(piece, buffer if number == 0 else None) for number, piece in enumerate(pieces)]
        slots, origin = load.slots, self.origin(load.block, order)
        if any(part is None for part in parts):
            kept, order = _without(pieces, parts, order)
            origin, slots = origin[kept], np.arange(len(row_buffer.weight))[slots][kept]
        found = [part for part in parts if part is not None]
        if found and len(order):
            rows = found[0] if len(found) == 1 else Rows.concatenate(found)
            if self._place(load, row_buffer, rows, slots, order, origin):
                self.buffers.append(buffer)

    def _place(
        self,
        load: Load,
        row_buffer: RowBuffer,
        rows: Rows,
        slots: NDArray[np.int64] | slice,
        order: NDArray[np.int64],
        origin: NDArray[np.int64],
    ) -> bool:
        weight = np.ones(len(order), np.float32)
        if len(order) < len(rows):  # rows of other lanes or of later are cut away before the work, not after it
            rows, order = rows.take(order), np.arange(len(order))
        if self.transform is not None:
            variants = np.full(len(rows), load.epoch % 65536, np.uint16)
            rows, skips = self.transform(rows, variants)
            weight = (skips[order] == 0).astype(np.float32)
            with self.stats.lock:
                self.stats.skipped_rows += int(len(weight) - weight.sum())
        return row_buffer.place(slots, rows.columns, order, weight, origin) and self.transform is None

    def _read(self, piece: Piece, buffer: bytearray | None) -> Rows | None:
        """Rows of a piece, which may be views of `buffer`; None for a skipped block."""
        if piece.block in self.shards.quarantined or piece.block in self.masked:
            return None
        columns = self.columns if self.transform is None else None
        for attempt in range(_REREADS + 1):
            try:
                rows = self.shards.read_block(piece.block, buffer, columns)
                break
            except DamagedBlock as error:
                if attempt == _REREADS:
                    if self.on_damaged == "raise":
                        raise
                    self._mask(piece.block, error)
                    return None
                time.sleep(_PAUSE_S * (attempt + 1))
        with self.stats.lock:
            self.stats.blocks += 1
            self.stats.bytes += int(self.shards.index.length[piece.block])
        whole = piece.start == 0 and piece.stop == len(rows)
        return rows if whole else cut(rows, piece.start, piece.stop)

    def _mask(self, block: int, error: DamagedBlock) -> None:
        """Remember a corrupt block, unless that would be one too many."""
        with self.stats.lock:
            masked, blocks, most = len(self.masked | {block}), len(self.shards.index), self.max_damaged_fraction
            if masked > most * blocks:
                got = f"{error.got} ({masked} of {blocks} blocks: max_damaged_fraction is {most:g})"
                raise DamagedBlock(error.shard, error.block, error.expected, got) from error
            self.stats.skipped_blocks += masked - len(self.masked)
            self.masked.add(block)

    def _buffer(self) -> bytearray:
        try:  # not a test first: another thread may take the last one in between
            return self.buffers.pop()
        except IndexError:
            return self.shards.buffer()


def _without(
    pieces: Sequence[Piece], parts: Sequence[Rows | None], order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places in `order` whose rows could be read, and where those rows stand in what was read."""
    present = np.repeat([part is not None for part in parts], [piece.stop - piece.start for piece in pieces])
    where = np.cumsum(present) - 1
    kept = np.flatnonzero(present[order])
    return kept, where[order[kept]]


def rows_at_once(shards: ShardSet, lanes: int, lane_rows: int, budget: int) -> int | None:
    """Lane rows of a round that may be loaded at once; None: all of them.

    Args:
        shards: the set.
        lanes: of the rank.
        lane_rows: of an epoch, for a round has no more.
        budget: bytes for what is loaded at once.

    Example: rows of 1 KiB on 16,384 lanes take 17 MiB a lane row, so that 120 of a block's 1,920 fit into 2 GiB.
    """
    row_bytes = shards.manifest.max_block_bytes // int(shards.index.rows.max()) + _FACTS
    most = max(1, budget // (lanes * row_bytes))
    return None if most >= min(shards.manifest.block_rows, lane_rows) else most
