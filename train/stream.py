"""The stream: shards in, global batches out, exact to the sample.

The global batch at a position is a pure function of (name and sizes of the set, seed, lanes, position): the same for
every world size, micro-batch and number of threads. All state is one integer, the samples consumed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd
from types import TracebackType
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pipeline.errors import ConfigurationError
from pipeline.shards import ShardSet
from train.arena import Column
from train.collate import Batch, Collate
from train.errors import StateMismatch, StreamError
from train.order import BlockOrder, LogicalBlocks
from train.rounds import Rounds, Source, StreamStats, Transform
from train.step import Step

__all__ = ["Stream", "default_lanes"]

_FORMAT: Final = 1
_ROWS_AT_ONCE: Final = 512  # of a rank: enough to make the price of a batch small, few enough to stay in cache


class Collator(Protocol):
    """Builds tensors from the list columns it names; `Collate` is the one that training uses."""

    @property
    def columns(self) -> tuple[str, ...]:
        """List columns to be read."""

    def __call__(self, columns: Mapping[str, Column], row_weight: NDArray[np.float32]) -> dict[str, Tensor]:
        """Tensors of a micro-batch."""


def default_lanes(global_batch: int) -> int:
    """Lanes where none are configured: gcd(64, global batch)."""
    return gcd(64, global_batch)


class Stream:
    """One rank's part of an endless, shuffled stream of micro-batches over one shard set.

    Args:
        shards: the set; a sample set needs `transform` and `collate`.
        rank: of this process.
        world_size: number of data-parallel processes; divides `lanes`.
        lanes: equal streams that a global batch is made of; part of the order, so choose a multiple of every world
            size ever wanted. None: gcd(64, global_batch).
        seed: of the order.
        global_batch: samples of a step over all ranks; a multiple of `lanes`.
        micro_batch: samples of one `Batch`; divides the rank's share of the global batch.
        transform: online corruption, applied to every block as it is loaded; variant = epoch mod 65536.
        collate: builds tensors; default: the rules of the set's manifest.
        io_threads: threads that load blocks; 0 loads in the calling thread, in the same order.
        prefetch_blocks: blocks a lane loads ahead.

    Raises:
        ConfigurationError: the numbers do not divide each other, or the set is empty.
    """

    def __init__(
        self,
        shards: ShardSet,
        *,
        rank: int,
        world_size: int,
        seed: int,
        global_batch: int,
        micro_batch: int,
        lanes: int | None = None,
        transform: Transform | None = None,
        collate: Collator | None = None,
        io_threads: int = 2,
        prefetch_blocks: int = 1,
    ) -> None:
        self.lanes = default_lanes(global_batch) if lanes is None else lanes
        self.seed, self.global_batch, self.micro_batch = seed, global_batch, micro_batch
        self.order = BlockOrder(shards.manifest.name, len(shards), shards.manifest.block_rows, seed, self.lanes)
        if not 0 <= rank < world_size or self.lanes % world_size:
            allowed = [n for n in range(1, self.lanes + 1) if self.lanes % n == 0]
            raise ConfigurationError(
                f"rank {rank} of {world_size}: the world size must divide the {self.lanes} lanes: {allowed}"
            )
        own = self.lanes // world_size
        self._collate = Collate.from_manifest(shards.manifest) if collate is None else collate
        blocks = LogicalBlocks(shards.index.rows, shards.manifest.block_rows)
        lanes_of_rank = (rank * own, (rank + 1) * own)
        self._source = Source(shards, self.order, blocks, lanes_of_rank, self._collate.columns, transform)
        self._threads, self._prefetch = io_threads, prefetch_blocks
        self._stats = StreamStats()
        self._position = 0
        self._built: _Built | None = None
        self._process = os.getpid()
        self._rounds: Rounds | None = self._new_rounds(None)
        self._lane_rows(global_batch)

    @property
    def samples(self) -> int:
        """Samples consumed so far, over all ranks."""
        return self._position * self.lanes

    @property
    def samples_per_epoch(self) -> int:
        """Samples of one epoch, the fewer than `lanes` filler rows at its end included."""
        return self.order.lane_rows * self.lanes

    def set_position(self, samples: int) -> None:
        """Go on from here: a whole number of rows of every lane."""
        if samples < 0 or samples % self.lanes:
            raise ConfigurationError(f"position {samples} is not a multiple of the {self.lanes} lanes")
        self._position = samples // self.lanes
        self._open().clear()

    def state_dict(self) -> dict[str, Any]:
        """The state after the batches *returned*; the same on every rank, whatever was loaded ahead."""
        data = json.dumps([self._source.shards.manifest.name, self._source.shards.digest])
        return {
            "samples": self.samples,
            "seed": self.seed,
            "lanes": self.lanes,
            "data": hashlib.sha256(data.encode()).hexdigest(),
            "format": _FORMAT,
        }

    def load_state_dict(self, state: Mapping[str, Any], allow_changed: Collection[str] = ()) -> None:
        """Go on from a saved state, before the first step or after any.

        Args:
            state: what `state_dict` gave.
            allow_changed: keys that may differ: `data` (another container of the same set), `seed`.

        Raises:
            StateMismatch: a key differs, or is absent.
        """
        current = self.state_dict()
        for field, value in current.items():
            if field not in state:
                raise StateMismatch(field, None, value)
            if field != "samples" and field not in allow_changed and state[field] != value:
                raise StateMismatch(field, state[field], value)
        self.set_position(int(state["samples"]))

    def next_step(self, global_batch: int | None = None) -> list[Batch]:
        """The rank's micro-batches of the next global batch; `global_batch` may change from step to step.

        Raises:
            CorruptBlock: a block is not what it should be; asking again reads again.
            StreamError: the stream is closed, or this is a forked process.
        """
        count = self._lane_rows(self.global_batch if global_batch is None else global_batch)
        rounds = self._open()
        if self._built is None or not self._built.holds(self._position, count):
            self._built = self._build(rounds, self._position, count)
        batches = self._batches(self._built, self._position)
        self._position += count
        return batches

    def one_pass(self, global_batch: int | None = None) -> Iterator[list[Batch]]:
        """Every row once, in the order of epoch 0, then filler up to a whole global batch; variant 0.

        Every rank gets the same number of steps. The stream's own position does not move.
        """
        count = self._lane_rows(self.global_batch if global_batch is None else global_batch)
        self._open()
        rounds = self._new_rounds(self.order.lane_rows)
        try:
            built = None
            for position in range(0, self.order.lane_rows, count):
                self._open()
                if built is None or not built.holds(position, count):
                    built = self._build(rounds, position, count)
                yield self._batches(built, position)
        finally:
            rounds.close()

    def explain(self, samples: int, global_batch: int | None = None) -> NDArray[np.int64]:
        """Origin [global batch, 3] (source, stored block, row) of the batch at a position, without reading a block."""
        count = self._lane_rows(self.global_batch if global_batch is None else global_batch)
        source = replace(self._source, lanes=(0, self.lanes))
        origin = np.full((self.lanes, count, 3), -1, np.int64)
        position, done = samples // self.lanes, 0
        while done < count:
            turn = self.order.round_at(position + done)
            table = np.full((self.lanes * turn.length, 3), -1, np.int64)
            for load in self.order.loads(turn, 0, self.lanes):
                table[load.slots] = source.origin(load)[1]
            first = position + done - turn.start
            taken = min(count - done, turn.length - first)
            origin[:, done : done + taken] = table.reshape(self.lanes, turn.length, 3)[:, first : first + taken]
            done += taken
        return origin.reshape(-1, 3)

    def stats(self) -> dict[str, float]:
        """Seconds that steps waited for blocks, stored blocks read, bytes read."""
        return {
            "wait_seconds": self._stats.wait_seconds,
            "blocks": self._stats.blocks,
            "bytes": self._stats.bytes,
        }

    def close(self) -> None:
        """Stop the threads; the stream cannot be used afterwards. A forked copy has no threads to stop."""
        if self._rounds is not None and self._process == os.getpid():
            self._rounds.close()
        self._rounds = None

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _new_rounds(self, end: int | None) -> Rounds:
        return Rounds(self._source, self._threads, self._prefetch, end, self._stats)

    def _open(self) -> Rounds:
        if self._process != os.getpid():
            raise StreamError(
                f"the stream belongs to process {self._process}, this is {os.getpid()}: threads do not survive a fork; "
                "open the stream after forking"
            )
        if self._rounds is None:
            raise StreamError("the stream is closed")
        return self._rounds

    def _lane_rows(self, global_batch: int) -> int:
        """Positions that a global batch takes; checks that everything divides."""
        if global_batch < 1 or global_batch % self.lanes:
            raise ConfigurationError(f"global_batch {global_batch} is not a multiple of the {self.lanes} lanes")
        first, last = self._source.lanes
        share = global_batch // self.lanes * (last - first)
        if self.micro_batch < 1 or share % self.micro_batch:
            raise ConfigurationError(
                f"micro_batch {self.micro_batch} does not divide this rank's {share} of {global_batch} samples"
            )
        return global_batch // self.lanes

    def _build(self, rounds: Rounds, position: int, count: int) -> _Built:
        """The global batch at a position, and as many that follow in its round as are built for one price."""
        lanes = self._source.lanes[1] - self._source.lanes[0]
        batches = max(1, min(_ROWS_AT_ONCE // (lanes * count), rounds.left(position) // count))
        step = Step(rounds.segments(position, batches * count), lanes, batches, self._collate.columns)
        return _Built(position, count, batches, step)

    def _batches(self, built: _Built, position: int) -> list[Batch]:
        first, last = self._source.lanes
        rows = (last - first) * built.count
        start = (position - built.position) // built.count * rows
        after = position + built.count
        samples, epoch = after * self.lanes, after / self.order.lane_rows
        batches = []
        for at in range(start, start + rows, self.micro_batch):
            columns, weight, origin = built.step.micro_batch(at, at + self.micro_batch)
            tensors = self._collate(columns, weight)
            batches.append(Batch(tensors, tensors["row_weight"], origin, samples, epoch))
        return batches


@dataclass(frozen=True, slots=True)
class _Built:
    """`batches` global batches of `count` positions each, from `position` on."""

    position: int
    count: int
    batches: int
    step: Step

    def holds(self, position: int, count: int) -> bool:
        """Whether the batch of `count` positions at `position` is among them."""
        batch, inside = divmod(position - self.position, self.count)
        return count == self.count and inside == 0 and 0 <= batch < self.batches
