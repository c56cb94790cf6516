"""Batches from a position on: rows of sets, gathered, collated and cut to micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from train.stream.buffer_pool import BufferPool
from train.stream.collate import Batch
from train.stream.mixture import Phase
from train.stream.prefetch import Prefetcher
from train.stream.reading_order import ReadingOrder
from train.stream.row_buffer import Column, Segment
from train.stream.row_views import Cells, Step, step_of_cells, step_of_segments
from train.stream.source import Source
from train.stream.threads import BackgroundBuilder, Workers

__all__ = ["Assembly", "Batches", "Builder", "Collator"]

_BUILT_AHEAD: Final = 2  # portions of batches that wait for the training thread
_ROWS_AT_ONCE: Final = 1024  # of a rank: enough to make the price of a batch small
_VALUES_AT_ONCE: Final = 1 << 19  # 4 MiB of int64, so that the rows stay in cache
_SMALL_VALUES: Final = 1 << 15
"""Batches of no more values, of which nothing but copies is to be made, are made in the training thread: some
microseconds, for values that then are in that core's cache already."""
_ROWS_IN_PLACE: Final = 1 << 13  # of such batches: they take no memory before they are made


class Collator(Protocol):
    """Builds tensors from the list columns it names; `Collate` is the one that training uses."""

    @property
    def columns(self) -> tuple[str, ...]:
        """List columns to be read."""

    def __call__(
        self,
        columns: Mapping[str, Column],
        row_weight: NDArray[np.float32] | None,
        sources: NDArray[np.int64] | None = None,
    ) -> dict[str, Tensor]:
        """Return the tensors of a micro-batch; `row_weight` None: all rows weigh 1."""


@dataclass(frozen=True)
class Assembly:
    """How rows become batches.

    Args:
        micro_batch: rows of one `Batch`.
        row_values: most values in a row, by which the rows built at once are bounded.
        dtypes: types of equally long columns; those not named become int64.
        by_length: whether a rank's rows of a global batch are put in order of length before they are cut.
        pin: whether tensors are put into page-locked memory, from which a device copies by itself.
    """

    collate: Collator
    micro_batch: int
    row_values: int
    dtypes: Mapping[str, DTypeLike]
    by_length: bool
    pin: bool


class Builder:
    """Builds one global batch after another, a few at a time.

    Args:
        reading: which lanes read what.
        prefetchers: rows of each source.
        assembly: how rows become batches.
        position: first lane row.
        count: lane rows of a batch; None: as each phase says.
    """

    def __init__(
        self,
        reading: ReadingOrder,
        prefetchers: Sequence[Prefetcher],
        assembly: Assembly,
        position: int,
        count: int | None = None,
    ) -> None:
        self.reading, self.prefetchers, self.assembly = reading, prefetchers, assembly
        self.position, self._count = position, count
        self._lanes = prefetchers[0].source.lanes
        self._pool = BufferPool(6)
        self._phase: Phase | None = None
        self._numbers: list[int] = []
        self._small = assembly.micro_batch * assembly.row_values <= _SMALL_VALUES and not assembly.pin
        self._copying = False  # whether the last batches were left to be made where they are used

    def __call__(self) -> Iterator[list[Batch]]:
        """The next global batches, each as the rank's micro-batches."""
        position = self.position
        count = self._count or self.reading.phase(position).global_batch // self.reading.lanes
        phase = self._enter(self.reading.phase(position, count))
        lanes = self._lanes[1] - self._lanes[0]
        rows = _ROWS_IN_PLACE if self._copying else min(_ROWS_AT_ONCE, _VALUES_AT_ONCE // self.assembly.row_values)
        most = max(1, rows // (lanes * count))
        if phase.stop is not None:
            most = min(most, (phase.stop - position) // count)
        if phase.uniform:
            (source,) = self._numbers
            prefetcher, row = self.prefetchers[source], position - phase.start + int(phase.base[0, 0])
            batches = max(1, min(most, prefetcher.left(row) // count))
            segments = prefetcher.segments(row, batches * count)
            epochs = [(row + n * count) / prefetcher.source.order.lane_rows for n in range(1, batches + 1)]
            step = self._step(prefetcher.source.columns, segments, (batches, lanes, count))
        else:
            batches = most
            step = self._mixed(phase, position, batches, count)
            epochs = [self._epoch(phase, position + n * count) for n in range(1, batches + 1)]
        if self.assembly.by_length:
            step = step.by_length("input_ids", lanes * count)
        self.position = position + batches * count
        built = self._batches(step, lanes * count, range(position + count, self.position + 1, count), epochs)
        self._copying = step.in_place and self._small
        return built if self._copying else iter(list(built))

    def _enter(self, phase: Phase) -> Phase:
        """Let go of sets that a new phase does not read."""
        if phase is not self._phase:
            self._numbers = [n for key in phase.sources if (n := self.reading.number(key)) is not None]
            for number, prefetcher in enumerate(self.prefetchers):
                if number not in self._numbers:
                    prefetcher.clear()
            self._phase = phase
        return phase

    def _step(self, columns: Sequence[str], segments: Sequence[Segment], shape: tuple[int, int, int]) -> Step:
        return step_of_segments(segments, shape, columns, self._pool, self.assembly.dtypes)

    def _mixed(self, phase: Phase, position: int, batches: int, count: int) -> Step:
        """Rows of several sets: for each set those that its lanes take, from the rounds they stand in."""
        lanes = np.arange(*self._lanes)
        positions = np.arange(position, position + batches * count)
        drawn = phase.drawn(lanes, positions)
        place = positions - position
        target = place // count * (len(lanes) * count) + np.arange(len(lanes))[:, None] * count + place % count
        cells: list[Cells] = []
        for k, source in enumerate(self._numbers):
            lane, at = np.nonzero(drawn == k)
            if len(lane):
                rows = phase.rows(k, lanes, positions)
                first = int(rows[:, 0].min())  # a lane that draws nothing now may be behind those that do
                cells += _found(self.prefetchers[source], first, rows[lane, at], lane, target[lane, at])
        assembly = self.assembly
        columns = dict.fromkeys(name for number in self._numbers for name in self.prefetchers[number].source.columns)
        return step_of_cells(cells, target.size, list(columns), self._pool, assembly.dtypes)

    def _batches(
        self, step: Step, rows: int, positions: Iterable[int], epochs: Iterable[float]
    ) -> Iterator[list[Batch]]:
        """Global batches of so many rows of the rank, each made when it is asked for."""
        collate, micro_batch, pin = self.assembly.collate, self.assembly.micro_batch, self.assembly.pin
        start, lanes = 0, self.reading.lanes
        for position, epoch in zip(positions, epochs, strict=True):
            batches = []
            for at in range(start, start + rows, micro_batch):
                columns, weight, origin = step.micro_batch(at, at + micro_batch)
                tensors = collate(columns, weight, origin[:, 0])
                if pin:
                    tensors = {name: tensor.pin_memory() for name, tensor in tensors.items()}
                batches.append(Batch(tensors, tensors["row_weight"], origin, position * lanes, epoch))
            start += rows
            yield batches

    def _epoch(self, phase: Phase, position: int) -> float:
        """Epochs at a position of the set that was read most often among those of the phase."""
        at, lane = np.array([position]), np.zeros(1, np.int64)
        sources = enumerate(self._numbers)
        return max(phase.rows(k, lane, at).item() / self.prefetchers[n].source.order.lane_rows for k, n in sources)


def _found(
    prefetcher: Prefetcher, first: int, row: NDArray[np.int64], lane: NDArray[np.int64], target: NDArray[np.int64]
) -> list[Cells]:
    """Where lane rows of a set stand in its rounds; those before the row `first` are let go."""
    found: list[Cells] = []
    before = 0
    for segment in prefetcher.segments(first, int(row.max()) - first + 1):
        length = segment.stop - segment.start
        inside = np.flatnonzero((row - first >= before) & (row - first < before + length))
        if len(inside):
            slots = lane[inside] * segment.row_buffer.length + row[inside] - first - before + segment.start
            found.append(Cells(segment.row_buffer, slots, target[inside]))
        before += length
    return found


class Batches:
    """What a stream has under way: rounds that are loaded, and portions of batches that are built.

    Args:
        reading: which lanes read what.
        sources: all sets.
        assembly: how rows become batches.
        workers: threads that load; None loads and builds in the calling thread.
        prefetch: rounds that are loaded ahead.
    """

    def __init__(
        self,
        reading: ReadingOrder,
        sources: Sequence[Source],
        assembly: Assembly,
        workers: Workers | None,
        prefetch: int,
    ) -> None:
        self._reading, self._sources, self._assembly = reading, sources, assembly
        self._workers, self._prefetch = workers, prefetch
        self._count: int | None = None
        self._prefetchers: list[Prefetcher] = []
        self._build: Callable[[], Iterator[list[Batch]]] | None = None
        self._ahead: BackgroundBuilder[Iterator[list[Batch]]] | None = None
        self._portion: Iterator[list[Batch]] = iter(())
        self._waited = 0.0

    @property
    def wait_seconds(self) -> float:
        """Time that `take` waited for the thread that builds."""
        return self._waited + (self._ahead.wait_seconds if self._ahead else 0.0)

    def take(self, position: int, count: int | None) -> list[Batch]:
        """The next global batch, of `count` lane rows; None: as many as its phase says.

        It begins at `position`, which follows the one before unless `stop` came in between.
        """
        if count != self._count:
            self.stop(keep_rounds=True)
            self._count = count
        batches = next(self._portion, None)
        if batches is None:
            build = self._build or self._start(position)
            self._portion = build()
            batches = next(self._portion)
        return batches

    def stop(self, *, keep_rounds: bool = False, wait: bool = True) -> None:
        """Drop the built batches, and the loaded rows too unless `keep_rounds`; `wait` for the thread that builds."""
        self._portion, self._build = iter(()), None
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.stop()
            self._waited += ahead.wait_seconds
        kept = keep_rounds and (ahead is None or ahead.join())
        if not kept:
            for prefetcher in self._prefetchers:
                prefetcher.close()
            self._prefetchers = []
            if wait and ahead is not None:
                ahead.join()

    def _start(self, position: int) -> Callable[[], Iterator[list[Batch]]]:
        if not self._prefetchers:
            self._prefetchers = [Prefetcher(source, self._workers, self._prefetch) for source in self._sources]
        builder = Builder(self._reading, self._prefetchers, self._assembly, position, self._count)
        if self._workers is None:
            self._build = builder
            return builder
        ahead = BackgroundBuilder(builder, _BUILT_AHEAD)
        self._ahead, self._build = ahead, ahead.get
        return ahead.get
