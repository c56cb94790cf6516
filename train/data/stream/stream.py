"""Stream global batches from shards, exact to the sample.

The global batch at a position is a pure function of (names and sizes of the sets, seed, lanes,
phases, position): the same for every world size, micro-batch and number of threads. The state is
one integer, the samples consumed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.configuration.config import Natural, check_arguments
from clozeline.errors import ConfigurationError, StateMismatch, StreamError
from clozeline.pipeline.shards import ShardSet
from clozeline.train.configuration.data import DataConfig
from clozeline.train.data.stream.batches import Assembly, Batch, Batches, Builder
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.mixture import Phase, Timeline
from clozeline.train.data.stream.phases import Input, as_phases, phases_to_data, read_phases
from clozeline.train.data.stream.reading_order import ReadingOrder
from clozeline.train.data.stream.rounds import Rounds, Source, StreamStats
from clozeline.train.data.stream.threads import LoaderThreads

_FORMAT: Final = 2
_REQUESTS_PER_THREAD: Final = 8
"""Requests to a store for each of `io_threads` that are in flight."""
_WARN_SHARE_GAP: Final = 0.01
"""A set whose share of the rows is this much below its weight gets a warning."""


class Stream:
    """One rank's part of an endless, shuffled stream of micro-batches.

    Args:
        data: a shard set, an `Input` (a sample set and the objective that corrupts it), or phases
            of mixtures of them.
        rank: rank of this process.
        world_size: number of data-parallel processes; divides `lanes`.
        lanes: number of lanes; part of the order, so choose a multiple of every world size you may
            use. None: gcd(64, global_batch).
        seed: seed of the order.
        global_batch: samples of a step over all ranks, unless a phase has its own; a multiple of
            `lanes`.
        micro_batch: samples of one `Batch`; divides the rank's share of the global batch.
        io_threads: threads that load blocks, plus one that builds batches; 0 does both in the
            calling thread. Sets in a store have eight times as many, which wait for requests.
        prefetch_blocks: blocks to load ahead per lane; more in a store if these would leave threads
            without work.
        by_length: sort a rank's rows of a global batch by length before they are split into
            micro-batches.
        max_damaged_fraction: share of a set's blocks that may be damaged; filler replaces their
            rows.
        memory_bytes: most bytes of loaded rows on this rank. If a round needs more, its blocks are
            read again for every part of the round: slower, in the same order.

    Raises:
        ConfigurationError: the numbers do not divide each other, a set is empty, or sets do not go
            together.
    """

    _process = 0
    """of the threads; 0: they were not started"""

    def __init__(
        self,
        data: ShardSet | Input | Sequence[Phase[Input]],
        *,
        rank: int,
        world_size: int,
        seed: int,
        global_batch: int,
        micro_batch: int,
        lanes: int | None = None,
        io_threads: int = 2,
        prefetch_blocks: int = 1,
        by_length: bool = False,
        max_damaged_fraction: float = 0.0,
        memory_bytes: int = 8 << 30,
    ) -> None:
        # check the settings as keys of `data`
        settings = check_arguments(
            DataConfig,
            "Stream",
            shards=".",
            lanes=lanes,
            seed=seed,
            global_batch=global_batch,
            micro_batch=micro_batch,
            io_threads=io_threads,
            prefetch_blocks=prefetch_blocks,
            length_buckets=by_length,
            max_damaged_fraction=max_damaged_fraction,
            memory_bytes=memory_bytes,
        )
        ranks = check_arguments(dict[str, Natural], "Stream", rank=rank, world_size=world_size)
        self.lanes: int = settings.lane_count
        self.seed: int = settings.seed
        self.global_batch: int = settings.global_batch
        self.micro_batch: int = settings.micro_batch
        self._rank_lanes = _lanes_of_rank(self.lanes, **ranks)

        # the order of all rows, and the collation rules
        phases = as_phases(data)
        lanes_of_rank = self._rank_lanes[1] - self._rank_lanes[0]
        if any(source.shards.is_remote for phase in phases for source in phase.sources):
            io_threads *= _REQUESTS_PER_THREAD
            if prefetch_blocks:
                prefetch_blocks = max(prefetch_blocks, io_threads // lanes_of_rank)
        self.reading = ReadingOrder(phases, self.seed, self.lanes, self.global_batch)
        """Order in which lanes read rows."""
        sets = self.reading.sets
        collate = Collate.from_manifests([source.manifest for source in self.reading.inputs])
        # one source per set
        self._stats = StreamStats()
        budget = memory_bytes // (
            max(len(phase.sources) for phase in phases) * (prefetch_blocks + 2)
        )
        self.sources = [
            Source(
                shards=source.shards,
                number=number,
                order=order,
                blocks=blocks,
                lanes=self._rank_lanes,
                columns=collate.columns_of(number),
                corruption=source.corruption,
                stats=self._stats,
                memory_bytes=budget,
                max_damaged_fraction=max_damaged_fraction,
            )
            for number, (source, order, blocks) in enumerate(
                zip(self.reading.inputs, self.reading.orders, self.reading.blocks, strict=True)
            )
        ]
        # batch sizes must divide
        self.order = self.sources[0].order
        """Order of the first set."""
        if rank == 0:
            _warn_of_small_sets(self.reading)

        for span in self.timeline.spans:
            self._lane_rows(span.global_batch)
        # threads and batches
        longest = max(1, *(shards.manifest.max_length for shards in sets))
        self._assembly = Assembly(collate, self.micro_batch, longest, by_length)
        self._prefetch = prefetch_blocks
        self._loaders = LoaderThreads(io_threads, "clozeline-io")
        self._position = 0
        self._batches = Batches(
            self.reading, self.sources, self._assembly, self._loaders, prefetch_blocks
        )
        self._process = os.getpid()
        self._closed = False

    @property
    def timeline(self) -> Timeline:
        """The phases."""
        return self.reading.timeline

    @property
    def samples(self) -> int:
        """Samples consumed so far, over all ranks."""
        return self._position * self.lanes

    @property
    def samples_per_epoch(self) -> int:
        """Samples of one epoch of the first set, with the filler rows at its end."""
        return self.order.lane_rows * self.lanes

    def set_position(self, samples: int) -> None:
        """Move to a position, a multiple of the lanes."""
        position = self._lane_row(samples)
        self._check_open()
        self._batches.stop()
        self._position = position

    def state_dict(self) -> dict[str, object]:
        """Return the state after the last returned batch, the same on every rank."""
        data = phases_to_data(self.reading.phases)
        return {
            "samples": self.samples,
            "seed": self.seed,
            "lanes": self.lanes,
            "data": data,
            "format": _FORMAT,
        }

    def load_state_dict(
        self, state: Mapping[str, object], allow_changed: Collection[str] = ()
    ) -> None:
        """Continue from a saved state, before the first step or after any.

        Args:
            state: a state of `state_dict`.
            allow_changed: keys that may differ: `seed`, `lanes`, or `data` (sets, weights,
                objectives, phases). The values of this stream then apply from the state's position
                on. With another seed or other lanes, rows of the epoch may repeat or be missing.

        Raises:
            StateMismatch: a key differs or is missing.
            ConfigurationError: `samples` is not a multiple of the lanes, or a phase ends within a
                global batch.
        """
        if not isinstance(state, Mapping):
            raise ConfigurationError(
                f"stream state: expected what state_dict has returned, got {state!r}"
            )
        # compare the keys
        for field, value in self.state_dict().items():
            if field not in state:
                raise StateMismatch(field, None, value)
            if (
                field not in ("samples", "data")
                and field not in allow_changed
                and state[field] != value
            ):
                raise StateMismatch(field, state[field], value)

        # continue the phases at the position
        samples = self._lane_row(state["samples"]) * self.lanes
        reading = self.reading.continue_from(read_phases(state["data"]), samples)
        if "data" not in allow_changed and phases_to_data(reading.phases) != state["data"]:
            raise StateMismatch("data", state["data"], phases_to_data(self.reading.phases))
        self.set_position(samples)

        if reading.phases != self.reading.phases:
            self.reading = reading
            self._batches = Batches(
                reading, self.sources, self._assembly, self._loaders, self._prefetch
            )

    def next_step(self) -> list[Batch]:
        """Return the rank's micro-batches of the next global batch, of the phase's size.

        Raises:
            DamagedBlock: a block of this batch is damaged; the next call reads it again.
            StreamError: the stream is closed, or this is a forked process.
        """
        self._check_open()
        try:
            batches = self._batches.take(self._position)
            self._position = batches[-1].samples // self.lanes
        except BaseException:
            self._batches.stop()  # the next call builds this batch again
            raise
        return batches

    def __iter__(self) -> Iterator[list[Batch]]:
        """Yield global batches without end, always from the stream's current position."""
        while True:
            yield self.next_step()

    def one_pass(
        self, global_batch: int | None = None, steps: int | None = None
    ) -> Iterator[list[Batch]]:
        """Yield every row of the first set once, in the order of epoch 0, with variant 0.

        Filler completes the last batch. Every rank gets the same number of steps, at most `steps`.
        The stream's position does not move. A step has `global_batch` samples over all ranks; None:
        as many as the stream's.
        """
        size = self.global_batch if global_batch is None else global_batch
        count = self._lane_rows(size)
        end = self.order.lane_rows if steps is None else min(self.order.lane_rows, steps * count)
        self._check_open()
        rounds = Rounds(self.sources[0], self._loaders, self._prefetch, end)
        reading = ReadingOrder([Phase((self.reading.inputs[0],))], self.seed, self.lanes, size)
        builder = Builder(reading, [rounds], self._assembly, 0)

        try:
            while builder.position < end:
                self._check_open()
                yield from builder()
        finally:
            rounds.clear()

    def explain(self, samples: int) -> NDArray[np.int64]:
        """Return (source, stored block, row) of each row of a batch, [global batch, 3].

        No block is read.
        """
        position = self._lane_row(samples)
        count = self._lane_rows(self.timeline.at(position).global_batch)
        return self.reading.origins(position, count)

    def stats(self) -> dict[str, float]:
        """Return counters: seconds of waiting, blocks, bytes, loads in flight, skipped rows.

        Remote sets add requests, retries and bytes fetched.
        """
        counters: dict[str, float] = {
            "wait_seconds": self._batches.wait_seconds,
            **self._stats.counts,
        }
        for source in self.sources:
            for name, value in source.shards.stats().items():
                counters[name] = counters.get(name, 0) + value
        return counters

    def close(self) -> None:
        """Stop the threads; the stream cannot be used afterwards."""
        if not self._closed and self._process == os.getpid():
            self._batches.stop()
            self._loaders.close()
            for source in self.sources:
                source.shards.release()
        self._closed = True

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._process == os.getpid():  # the threads of a forked child's stream are its parent's
            self._batches.stop(wait=False)
            self._loaders.release()

    def _check_open(self) -> None:
        if self._process != os.getpid():
            raise StreamError(
                f"the stream belongs to process {self._process}, this is {os.getpid()}: threads do "
                "not survive a fork; open the stream after forking"
            )
        if self._closed:
            raise StreamError("the stream is closed")

    def _lane_row(self, position: object) -> int:
        samples: int = check_arguments(dict[str, Natural], "stream", samples=position)["samples"]
        if samples % self.lanes:
            raise ConfigurationError(
                f"position {samples}: no batch begins there; expected a multiple of the "
                f"{self.lanes} lanes"
            )
        return samples // self.lanes

    def _lane_rows(self, global_batch: int) -> int:
        """Return the lane rows of a global batch; check that lanes and micro-batches divide it."""
        if global_batch < 1 or global_batch % self.lanes:
            raise ConfigurationError(
                f"global_batch {global_batch} is not a multiple of the {self.lanes} lanes"
            )

        first, last = self._rank_lanes
        share = global_batch // self.lanes * (last - first)
        if self.micro_batch < 1 or share % self.micro_batch:
            raise ConfigurationError(
                f"micro_batch {self.micro_batch} does not divide this rank's {share} of "
                f"{global_batch} samples"
            )

        return global_batch // self.lanes


def _lanes_of_rank(lanes: int, rank: int, world_size: int) -> tuple[int, int]:
    """Return the lanes of a rank, [first, end)."""
    if rank >= world_size:
        raise ConfigurationError(
            f"Stream: rank: expected less than the world_size {world_size}, got {rank}: the first "
            "rank is 0"
        )
    if lanes % world_size:
        allowed = [n for n in range(1, lanes + 1) if lanes % n == 0]
        raise ConfigurationError(
            f"rank {rank} of {world_size}: the world size must divide the {lanes} lanes: {allowed}"
        )
    share = lanes // world_size
    return rank * share, (rank + 1) * share


def _warn_of_small_sets(reading: ReadingOrder) -> None:
    for span in reading.timeline.spans:
        weights = (span.mixture.counts / span.mixture.period).tolist()
        for (name, share), weight in zip(reading.shares(span).items(), weights, strict=True):
            if weight - share > _WARN_SHARE_GAP:
                sys.stderr.write(
                    f"{name}: {share:.3g} of the rows come from this set, less than its weight of "
                    f"{weight:.3g}: its epochs are short for {reading.lanes} lanes and end with "
                    "filler rows; take fewer lanes (data.lanes), or raise its weight\n"
                )
