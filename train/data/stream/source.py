"""Read the blocks of one shard set for this rank's lanes: verify, re-read or skip, corrupt, and fill the row buffer."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.pipeline.rows import ExampleBatch, Rows
from clozeline.pipeline.shards import DamagedBlock, ShardSet
from clozeline.pipeline.shards.columns import cut
from clozeline.train.data.stream.order import BlockOrder, Load, LogicalBlocks, Piece
from clozeline.train.data.stream.row_buffer import RowBuffer

Transform: TypeAlias = Callable[[Rows, NDArray[np.uint16]], tuple[ExampleBatch, NDArray[np.uint8]]]
"""Online corruption: (rows, variant of each) → (examples, 0 or the reason of a skip for each)."""
OnDamaged: TypeAlias = Literal["raise", "skip"]
_REREADS: Final = 2
_PAUSE_S: Final = 0.05
_ROW_BYTES: Final = 64  # of a row in addition to its columns: origin, weight, start and length of lists


@dataclass
class StreamStats:
    """Counters over all sets since the stream was opened."""

    blocks: int = 0
    bytes: int = 0
    in_flight: int = 0
    skipped_blocks: int = 0
    skipped_rows: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)


@dataclass(frozen=True)
class Source:
    """One set of a stream, and how its blocks are loaded."""

    shards: ShardSet
    number: int
    order: BlockOrder
    blocks: LogicalBlocks
    lanes: tuple[int, int]
    """this rank's lanes, [first, end)"""
    columns: Sequence[str]
    transform: Transform | None
    stats: StreamStats
    memory_bytes: int
    """limit for rows loaded at once"""
    on_damaged: OnDamaged
    """`raise`, or `skip`: unreadable rows become filler, and no other row moves"""
    max_damaged_fraction: float
    skipped: set[int] = field(default_factory=set)
    """Damaged blocks skipped so far."""

    @cached_property
    def max_lane_rows(self) -> int | None:
        """Lane rows of a round that fit into memory at once; None: all."""
        first, last = self.lanes
        return rows_at_once(self.shards, last - first, self.order.lane_rows, self.memory_bytes)

    def origin(self, block: int, order: Int64) -> Int64:
        """Return the origin of rows of a logical block: source, stored block and row, shape [n, 3]."""
        origin = np.empty((len(order), 3), np.int64)
        origin[:, 0] = self.number
        origin[:, 1], origin[:, 2] = self.blocks.locate(block, order)
        return origin

    def fill(self, load: Load, order: Int64, row_buffer: RowBuffer) -> None:
        """Read a logical block and copy the rank's rows to the row buffer."""
        # read the stored pieces; None for a skipped one, whose rows stay filler
        pieces = self.blocks.pieces(load.block)
        parts = [self._read(piece) for piece in pieces]
        slots, origin = load.slots, self.origin(load.block, order)
        if any(part is None for part in parts):
            present = np.repeat([part is not None for part in parts], [piece.stop - piece.start for piece in pieces])
            kept = np.flatnonzero(present[order])
            order = (np.cumsum(present) - 1)[order[kept]]
            origin, slots = origin[kept], np.arange(len(row_buffer.weight))[slots][kept]
        readable = [part for part in parts if part is not None]
        if readable and len(order):
            rows = readable[0] if len(readable) == 1 else Rows.concatenate(readable)
            self._put(load, row_buffer, rows, slots, order, origin)

    def _put(
        self, load: Load, row_buffer: RowBuffer, rows: Rows, slots: Int64 | slice, order: Int64, origin: Int64
    ) -> None:
        weight = np.ones(len(order), np.float32)
        if len(order) < len(rows):  # drop the rows of other lanes before corrupting
            rows, order = rows.take(order), np.arange(len(order))
        if self.transform is not None:
            rows, skips = self.transform(rows, np.full(len(rows), load.epoch % 65536, np.uint16))
            weight = (skips[order] == 0).astype(np.float32)
            with self.stats.lock:
                self.stats.skipped_rows += int(len(weight) - weight.sum())
        row_buffer.put(slots, rows.columns, order, weight, origin)

    def _read(self, piece: Piece) -> Rows | None:
        """Return the rows of a piece; None for a skipped block."""
        if piece.block in self.shards.quarantined or piece.block in self.skipped:
            return None
        # try again a few times: a network file system may recover
        columns = self.columns if self.transform is None else None
        for attempt in range(_REREADS + 1):
            try:
                rows = self.shards.read_block(piece.block, columns)
                break
            except DamagedBlock as error:
                if attempt == _REREADS:
                    if self.on_damaged == "raise":
                        raise
                    self._skip(piece.block, error)
                    return None
                time.sleep(_PAUSE_S * (attempt + 1))
        with self.stats.lock:
            self.stats.blocks += 1
            self.stats.bytes += int(self.shards.index.length[piece.block])
        return rows if (piece.start, piece.stop) == (0, len(rows)) else cut(rows, piece.start, piece.stop)

    def _skip(self, block: int, error: DamagedBlock) -> None:
        """Record a damaged block as skipped, or raise if too many are."""
        with self.stats.lock:
            skipped, blocks, limit = len(self.skipped | {block}), len(self.shards.index), self.max_damaged_fraction
            if skipped > limit * blocks:
                got = f"{error.got} ({skipped} of {blocks} blocks: max_damaged_fraction is {limit:g})"
                raise DamagedBlock(error.shard, error.block, error.expected, got) from error
            self.stats.skipped_blocks += skipped - len(self.skipped)
            self.skipped.add(block)


def rows_at_once(shards: ShardSet, lanes: int, lane_rows: int, budget: int) -> int | None:
    """Return the lane rows of a round that fit into `budget` bytes at once; None: all.

    The lanes are those of the rank; a round has at most the `lane_rows` of an epoch.

    Example: rows of 1 KiB on 16,384 lanes take 17 MiB a lane row, so 120 of a block's 1,920 fit into 2 GiB.
    """
    row_bytes = shards.manifest.max_block_bytes // int(shards.index.rows.max()) + _ROW_BYTES
    fitting = max(1, budget // (lanes * row_bytes))
    return None if fitting >= min(shards.manifest.block_rows, lane_rows) else fitting
