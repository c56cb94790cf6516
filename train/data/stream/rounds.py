"""Load the rounds of a shard set: threads read, verify and corrupt blocks while the model computes.

All rows of a rank's round are joined: each feature is one ragged column, and `cells` has the row in
each cell. A batch is then one gather, whatever the lengths of its rows and the number of lanes.
This costs time: joining copies every value, and a gather is slower than a strided copy of equally
long rows. Packed rows with only ids take about twice the processor time of such a copy; rows with
labels, or of many lengths, take no more.

Threads suffice: reading, hashing, decompressing and copying release the interpreter lock. In a
store, one request reads the blocks of a round that follow one another in a shard.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from clozeline.arrays import Int64
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import DamagedBlock, ShardSet
from clozeline.train.data.stream.online_corruption import Corruption
from clozeline.train.data.stream.order import BlockOrder, Load, LogicalBlocks, Piece, ReadingRound
from clozeline.train.data.stream.padding import empty_rows
from clozeline.train.data.stream.threads import LoaderThreads

_REREADS: Final = 2
"""Further attempts to read a damaged block."""
_PAUSE_S: Final = 0.05
"""Seconds before the first of them."""
_ROW_BYTES: Final = 64
"""Bytes of a row in addition to its columns: origin, weight, offsets, index."""
_LOADS_AT_ONCE: Final = 64
"""Blocks whose rows are shuffled together, in the calling thread, and whose requests are joined."""
_REQUEST_BYTES: Final = 8 << 20
"""Most bytes of a request for several blocks."""


class StreamStats:
    """Counters over all sets since the stream was opened: blocks, bytes, loads, skipped rows."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.counts = dict.fromkeys(
            ("blocks", "bytes", "in_flight", "skipped_blocks", "skipped_rows"), 0
        )

    def add(self, **counts: int) -> None:
        """Add to counters, from any thread."""
        with self.lock:
            for name, count in counts.items():
                self.counts[name] += count


class LoadedBlock(NamedTuple):
    """The rows of one load, and the row in each of its slots."""

    slots: Int64 | slice
    row: Int64
    """1 + the row in each slot; 0 if its stored block was skipped"""
    rows: RowBatch
    """rows with the fixed columns of `LoadedRound.rows`"""


class Run(NamedTuple):
    """Loads that one thread reads, one after another."""

    blocks: list[int]
    """stored blocks; those of several loads follow one another in a shard"""
    loads: list[tuple[Load, Int64]]
    """each load, and the row of its logical block for each of its slots"""


class LoadedRound(NamedTuple):
    """The rows of one round of a rank."""

    rows: RowBatch
    """Row 0 is filler. Fixed columns: `weight` float32 [n], 0 for filler and for rows that online
    corruption skips; `origin` int64 [n, 3]: source, stored block, row in it, -1 for filler."""
    cells: Int64
    """row in each cell [lanes, lane rows]"""


@dataclass(frozen=True)
class Source:
    """One set of a stream, with the settings for loading its blocks."""

    shards: ShardSet
    number: int
    order: BlockOrder
    blocks: LogicalBlocks
    lanes: tuple[int, int]
    """this rank's lanes, [first, end)"""
    columns: Sequence[str]
    corruption: Corruption | None
    """corruption of samples; None for examples"""
    stats: StreamStats
    memory_bytes: int
    """most bytes of rows that are loaded at once"""
    max_damaged_fraction: float
    """share of the blocks that may be damaged: filler replaces their rows, and no other row moves;
    0: the first damaged block is an error"""
    skipped: set[int] = field(default_factory=set)
    """damaged blocks that were skipped"""

    @cached_property
    def max_lane_rows(self) -> int | None:
        """Lane rows of a round that fit into memory at once; None: all.

        Example: rows of 1 KiB on 16,384 lanes take 17 MiB per lane row, so 120 of the 1,920 rows of
        a block fit into 2 GiB.
        """
        manifest = self.shards.manifest
        first, last = self.lanes
        row_bytes = manifest.max_block_bytes // int(self.shards.index.rows.max()) + _ROW_BYTES
        fitting = max(1, self.memory_bytes // ((last - first) * row_bytes))
        return None if fitting >= min(manifest.block_rows, self.order.lane_rows) else fitting

    def runs(self, loads: Sequence[tuple[Load, Int64]]) -> list[Run]:
        """Join loads whose blocks one request to a store can read."""
        runs: list[Run] = []
        blocks_of = {
            load.block: [piece.block for piece in self.blocks.pieces(load.block)]
            for load, _ in loads
        }
        for load, order in sorted(loads, key=lambda each: blocks_of[each[0].block]):
            blocks = blocks_of[load.block]
            if runs and self.shards.is_remote and self._can_join([*runs[-1].blocks, *blocks]):
                runs[-1].blocks.extend(blocks)
                runs[-1].loads.append((load, order))
            else:
                runs.append(Run(blocks, [(load, order)]))
        return runs

    def _can_join(self, blocks: Sequence[int]) -> bool:
        """Return whether one request can read stored blocks, and all of them are needed."""
        index = self.shards.index
        first = blocks[0]
        last = blocks[-1]
        size = int(index.offset[last]) + int(index.length[last]) - int(index.offset[first])
        return (
            blocks == [*range(first, last + 1)]
            and index.shard[first] == index.shard[last]
            and size <= _REQUEST_BYTES
        )

    def load(self, run: Run) -> list[LoadedBlock]:
        """Read the logical blocks of a run; those without a readable row are left out."""
        self.stats.add(in_flight=len(run.loads))
        try:
            shards = self.shards if len(run.loads) == 1 else self.shards.read_ahead(run.blocks)
            loaded = [self._load(load, order, shards) for load, order in run.loads]
        finally:
            self.stats.add(in_flight=-len(run.loads))
        return [block for block in loaded if block is not None]

    def _load(self, load: Load, order: Int64, shards: ShardSet) -> LoadedBlock | None:
        """Read a logical block; return None if no row is readable."""
        # read the stored pieces; None for a skipped piece
        pieces = self.blocks.pieces(load.block)
        parts = [self._read(piece, shards) for piece in pieces]
        readable = [part for part in parts if part is not None]
        if not readable:
            return None
        rows = readable[0] if len(readable) == 1 else RowBatch.concatenate(readable)

        # `slot_rows`: 1 + the row in each slot, 0 if skipped; `numbers`: the index of each row in
        # the logical block
        is_present = np.repeat(
            [part is not None for part in parts], [piece.stop - piece.start for piece in pieces]
        )
        slot_rows = np.where(is_present, np.cumsum(is_present), 0)[order]
        numbers = np.flatnonzero(is_present)

        # drop the rows of other lanes before corrupting
        own_rows = slot_rows[slot_rows > 0] - 1
        if len(own_rows) < len(rows):
            rows = rows.take(own_rows)
            numbers = numbers[own_rows]
            slot_rows[slot_rows > 0] = np.arange(1, len(own_rows) + 1)

        # corrupt; a row that the objective skips has weight 0
        weight = np.ones(len(rows), np.float32)

        if self.corruption is not None:
            rows, skips = self.corruption(rows, np.full(len(rows), load.epoch % 65536, np.uint16))
            weight[skips != 0] = 0
            self.stats.add(skipped_rows=int(np.count_nonzero(skips)))

        # add the origin of each row
        stored, stored_row = self.blocks.locate(load.block, numbers)
        origin = np.stack((np.full(len(rows), self.number), stored, stored_row), axis=1)
        columns = {name: rows.columns[name] for name in self.columns}
        return LoadedBlock(
            load.slots, slot_rows, RowBatch({"weight": weight, "origin": origin}, columns)
        )

    def _read(self, piece: Piece, shards: ShardSet) -> RowBatch | None:
        """Return the rows of a piece; None for a skipped block."""
        if piece.block in self.skipped:
            return None
        # try again a few times: a network file system may recover
        columns = self.columns if self.corruption is None else None

        for attempt in range(_REREADS + 1):
            try:
                rows = shards.read_block(piece.block, columns)
                break
            except DamagedBlock as error:
                if attempt == _REREADS:
                    if not self.max_damaged_fraction:
                        raise
                    self._skip(piece.block, error)
                    return None
                time.sleep(_PAUSE_S * (attempt + 1))

        self.stats.add(blocks=1, bytes=int(self.shards.index.length[piece.block]))
        return (
            rows
            if (piece.start, piece.stop) == (0, len(rows))
            else rows.cut(piece.start, piece.stop)
        )

    def _skip(self, block: int, error: DamagedBlock) -> None:
        """Record a damaged block as skipped, or raise if too many are skipped."""
        with self.stats.lock:
            skipped = len(self.skipped | {block})
            blocks = len(self.shards.index)
            limit = self.max_damaged_fraction
            if skipped > limit * blocks:
                got = (
                    f"{error.got} ({skipped} of {blocks} blocks: max_damaged_fraction is {limit:g})"
                )
                raise DamagedBlock(error.shard, error.block, error.expected, got) from error
            self.stats.counts["skipped_blocks"] += skipped - len(self.skipped)
            self.skipped.add(block)


@dataclass
class _LoadingRound:
    """A round whose blocks are being loaded, or are loaded."""

    round_: ReadingRound
    loads: list[Future[list[LoadedBlock]]]
    loaded: LoadedRound | None = None


class Rounds:
    """The rows of one set by lane row, loaded some rounds ahead of the last request.

    Lane rows from `end` on are filler (a finite pass); `end` None: the set is endless.
    """

    def __init__(
        self, source: Source, threads: LoaderThreads, ahead: int, end: int | None = None
    ) -> None:
        self.source = source
        self._threads = threads
        self._ahead = ahead if threads.count else 0
        self._end = end
        self._pending: dict[int, _LoadingRound] = {}
        self._closed = False

    def find(self, first: int, lane: Int64, row: Int64) -> Iterator[tuple[RowBatch, Int64, Int64]]:
        """Find the rows of cells, round by round.

        Args:
            first: no request reads an earlier lane row from now on; earlier rounds are dropped.
            lane: lane of each cell [n], counted from the rank's first lane.
            row: lane row of each cell [n].

        Yields:
            for each round with some of the cells: its rows, the indices of these cells, and the row
            in each of them.
        """
        past_starts = [s for s, item in self._pending.items() if s + item.round_.length <= first]
        for start in past_starts:
            del self._pending[start]
        stop = int(row.max()) + 1 if self._end is None else min(int(row.max()) + 1, self._end)
        while first < stop:
            round_ = self._round(first)
            loaded = self._wait(round_)
            here = np.flatnonzero((row >= first) & (row < min(stop, round_.start + round_.length)))
            if len(here):
                cell = lane[here] * round_.length + row[here] - round_.start
                yield loaded.rows, here, loaded.cells.take(cell)
            first = round_.start + round_.length

    def remaining(self, row: int) -> int:
        """Return the lane rows from `row` to the end of its round or of the pass."""
        round_ = self._round(row)
        end = round_.start + round_.length
        return max(0, min(end, self._end or end) - row)

    def clear(self) -> None:
        """Drop all loaded rows, and cancel loads that have not started."""
        pending = list(self._pending.values())
        self._pending = {}
        for item in pending:
            for load in item.loads:
                load.cancel()

    def close(self) -> None:
        """Drop all rows and refuse later requests, also from other threads."""
        self._closed = True
        self.clear()

    def _round(self, row: int) -> ReadingRound:
        return self.source.order.round_at(row, self.source.max_lane_rows)

    def _wait(self, round_: ReadingRound) -> LoadedRound:
        """Start loading a round and the rounds ahead, and wait for this one."""
        item = self._begin(round_)

        # start the rounds ahead
        for _ in range(self._ahead):
            next_start = round_.start + round_.length
            if self._end is not None and next_start >= self._end:
                break
            round_ = self._round(next_start)
            self._begin(round_)

        # wait for the blocks of this round, and join them
        if item.loaded is None:
            try:
                # raise an error even while another read hangs
                done, _ = wait(item.loads, return_when=FIRST_EXCEPTION)
                for load in done:
                    load.result()
                item.loaded = self._join(item)
            except BaseException:
                self.clear()  # the next request reads again
                raise
            item.loads = []

        return item.loaded

    def _begin(self, round_: ReadingRound) -> _LoadingRound:
        """Start the loads of a round unless they are running."""
        self._check_open()

        if round_.start not in self._pending:
            order = self.source.order
            item = _LoadingRound(round_, [])
            loads = list(order.loads(round_, *self.source.lanes))
            for start in range(0, len(loads), _LOADS_AT_ONCE):
                group = loads[start : start + _LOADS_AT_ONCE]
                orders = order.row_orders(round_.epoch, [load.block for load in group])
                # copies, because a view would hold the orders of the group
                ordered = [
                    (load, rows[load.rows].copy()) for load, rows in zip(group, orders, strict=True)
                ]
                for run in self.source.runs(ordered):
                    item.loads.append(self._threads.submit(self.source.load, run))
            self._pending[round_.start] = item
            # another thread may have called `close` before these loads were recorded
            self._check_open()

        return self._pending[round_.start]

    def _join(self, item: _LoadingRound) -> LoadedRound:
        """Join the blocks of a round into one set of rows, with a filler row at index 0."""
        blocks = [block for load in item.loads for block in load.result()]
        types = (
            {name: column.values.dtype for name, column in blocks[0].rows.columns.items()}
            if blocks
            else {}
        )

        # row 0: filler, with columns of the same types
        filler = RowBatch(
            {"weight": np.zeros(1, np.float32), "origin": np.full((1, 3), -1, np.int64)},
            {name: empty_rows(1, types.get(name, np.uint16)) for name in self.source.columns},
        )

        # cells [lanes x lane rows]: the index in the joined rows
        first, last = self.source.lanes
        cells = np.zeros((last - first) * item.round_.length, np.int64)
        joined_count = 0
        for block in blocks:
            cells[block.slots] = block.row + joined_count * (block.row > 0)
            joined_count += len(block.rows)

        rows = RowBatch.concatenate([filler, *(block.rows for block in blocks)])
        return LoadedRound(rows, cells.reshape(last - first, -1))

    def _check_open(self) -> None:
        if self._closed:
            self.clear()
            raise CancelledError
