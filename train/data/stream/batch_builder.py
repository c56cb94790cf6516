"""Build batches ahead of the training thread: gather the rows, cut them into micro-batches, collate them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from clozeline.train.data.stream.batch import Batch
from clozeline.train.data.stream.buffer_pool import BufferPool
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.mixture import Stretch
from clozeline.train.data.stream.prefetch import Prefetcher
from clozeline.train.data.stream.reading_order import ReadingOrder
from clozeline.train.data.stream.row_buffer import Column
from clozeline.train.data.stream.row_views import BatchRows, Cells, rows_of_cells, rows_of_segments
from clozeline.train.data.stream.source import Source
from clozeline.train.data.stream.threads import BackgroundBuilder, LoaderThreads

_BUILT_AHEAD: Final = 2  # results of `Builder` that wait for the training thread
_ROWS_AT_ONCE: Final = 1024  # of a rank: enough to make the cost of a batch small
_VALUES_AT_ONCE: Final = 1 << 19  # 4 MiB of int64, so that the rows stay in cache
_SMALL_VALUES: Final = 1 << 15
"""Micro-batches of at most this many values that need only a copy are built in the training thread: it takes
microseconds, and the values are then in that core's cache."""
_STRIDED_ROWS: Final = 1 << 13  # of such micro-batches in one call: they take little memory before they are copied
_STRIDED_BATCHES: Final = 256  # the same in micro-batches
_STRIDED_POSITIONS: Final = 1 << 17  # 1 MiB of position ids, which each of them has one row of


class Collator(Protocol):
    """A function that builds tensors from the list columns it names; training uses `Collate`."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the list columns to read."""

    def __call__(
        self,
        columns: Mapping[str, Column],
        row_weight: NDArray[np.float32] | None,
        sources: NDArray[np.int64] | None = None,
    ) -> dict[str, Tensor]:
        """Return the tensors of a micro-batch; `row_weight` None: all rows weigh 1."""


@dataclass(frozen=True)
class Assembly:
    """Settings that turn rows into batches."""

    collate: Collator
    micro_batch: int
    row_values: int
    """maximum of values in a row; it limits the rows that are built at once"""
    dtypes: Mapping[str, DTypeLike]
    """types of columns whose rows are equally long; others become int64"""
    by_length: bool
    """sort a rank's rows of a global batch by length before they are cut"""


class Builder:
    """Build consecutive global batches of `count` lane rows (None: as each phase says), a few in each call."""

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
        self._stretch: Stretch | None = None
        self._numbers: list[int] = []
        self._small = assembly.micro_batch * assembly.row_values <= _SMALL_VALUES
        self._prepared = max(1, min(_STRIDED_BATCHES, _STRIDED_POSITIONS // assembly.row_values))
        self._copying = False  # whether the training thread copies the batches of the last call

    def __call__(self) -> Iterator[list[Batch]]:
        """Return the next global batches, each as the rank's micro-batches."""
        # the stretch of the phase at this position, and how many of its batches to build at once
        position = self.position
        count = self._count or self.reading.stretch(position).global_batch // self.reading.lanes
        stretch = self._enter(self.reading.stretch(position, count))
        lanes, micro_batch = self._lanes[1] - self._lanes[0], self.assembly.micro_batch
        rows_at_once = min(_ROWS_AT_ONCE, _VALUES_AT_ONCE // self.assembly.row_values)
        if self._copying:
            rows_at_once = min(_STRIDED_ROWS, self._prepared * micro_batch)
        batches = max(1, rows_at_once // (lanes * count))
        if stretch.stop is not None:
            batches = min(batches, (stretch.stop - position) // count)
        # gather the rows: strided copies where all lanes read the same lane row of one set, else cell by cell
        if stretch.uniform:
            (source,) = self._numbers
            prefetcher, row = self.prefetchers[source], position - stretch.start + int(stretch.base[0, 0])
            batches = max(1, min(batches, prefetcher.remaining(row) // count))
            segments = prefetcher.segments(row, batches * count)
            epochs = [(row + n * count) / prefetcher.source.order.lane_rows for n in range(1, batches + 1)]
            shape, columns = (batches, lanes, count), prefetcher.source.columns
            portion = rows_of_segments(segments, shape, columns, self._pool, self.assembly.dtypes)
        else:
            portion = self._gather_mixture(stretch, position, batches, count)
            at, lane = position + count * np.arange(1, batches + 1), np.zeros(1, np.int64)
            lane_rows = [self.prefetchers[number].source.order.lane_rows for number in self._numbers]
            epochs = np.max([stretch.rows(k, lane, at)[0] / n for k, n in enumerate(lane_rows)], axis=0).tolist()
        if self.assembly.by_length:
            portion = portion.by_length("input_ids", lanes * count)
        # collate, here or later in the training thread
        self.position = position + batches * count
        built = self._batches(portion, lanes * count, range(position + count, self.position + 1, count), epochs)
        self._copying = portion.is_view and self._small
        if not self._copying:
            return iter(list(built))
        collate, width = self.assembly.collate, portion.width("input_ids")
        if isinstance(collate, Collate) and width is not None and portion.weight is None:
            collate.full_rows.prepare(micro_batch, width, min(self._prepared, len(portion.origin) // micro_batch))
        return built

    def _enter(self, stretch: Stretch) -> Stretch:
        """Start a stretch: drop the loaded rows of sets that it does not read."""
        if stretch is not self._stretch:
            self._numbers = [n for key in stretch.sources if (n := self.reading.number(key)) is not None]
            for number, prefetcher in enumerate(self.prefetchers):
                if number not in self._numbers:
                    prefetcher.clear()
            self._stretch = stretch
        return stretch

    def _gather_mixture(self, stretch: Stretch, position: int, batches: int, count: int) -> BatchRows:
        """Return rows of several sets: each cell takes the next row of the set that its lane draws."""
        # drawn [lanes, positions]: the set of each cell; target: its row in the batches
        lanes = np.arange(*self._lanes)
        positions = np.arange(position, position + batches * count)
        drawn = stretch.draw_sources(lanes, positions)
        offset = positions - position
        target = offset // count * (len(lanes) * count) + np.arange(len(lanes))[:, None] * count + offset % count
        cells: list[Cells] = []
        for k, source in enumerate(self._numbers):
            lane, at = np.nonzero(drawn == k)
            if len(lane):
                rows = stretch.rows(k, lanes, positions)
                first = int(rows[:, 0].min())  # a lane that draws nothing here may be at an earlier row
                cells += _cells(self.prefetchers[source], first, rows[lane, at], lane, target[lane, at])
        columns = dict.fromkeys(name for number in self._numbers for name in self.prefetchers[number].source.columns)
        return rows_of_cells(cells, target.size, list(columns), self._pool, self.assembly.dtypes)

    def _batches(
        self, portion: BatchRows, rows: int, positions: Iterable[int], epochs: Iterable[float]
    ) -> Iterator[list[Batch]]:
        """Yield global batches of `rows` rows on this rank, each built when it is requested."""
        collate, micro_batch = self.assembly.collate, self.assembly.micro_batch
        start, lanes = 0, self.reading.lanes
        for position, epoch in zip(positions, epochs, strict=True):
            batches = []
            for at in range(start, start + rows, micro_batch):
                columns, weight, origin = portion.micro_batch(at, at + micro_batch)
                tensors = collate(columns, weight, origin[:, 0])
                batches.append(Batch(tensors, tensors["row_weight"], origin, position * lanes, epoch))
            start += rows
            yield batches


def _cells(
    prefetcher: Prefetcher, first: int, row: NDArray[np.int64], lane: NDArray[np.int64], target: NDArray[np.int64]
) -> list[Cells]:
    """Return the slots of single lane rows in a set's rounds; the prefetcher drops rows before `first`."""
    cells: list[Cells] = []
    before = 0
    for segment in prefetcher.segments(first, int(row.max()) - first + 1):
        length = segment.stop - segment.start
        inside = np.flatnonzero((row - first >= before) & (row - first < before + length))
        if len(inside):
            slots = lane[inside] * segment.row_buffer.length + row[inside] - first - before + segment.start
            cells.append(Cells(segment.row_buffer, slots, target[inside]))
        before += length
    return cells


class Batches:
    """The batches of a stream in order; threads load rounds and build batches ahead."""

    def __init__(
        self,
        reading: ReadingOrder,
        sources: Sequence[Source],
        assembly: Assembly,
        loaders: LoaderThreads | None,
        prefetch: int,
    ) -> None:
        self._reading, self._sources, self._assembly = reading, sources, assembly
        self._loaders, self._prefetch = loaders, prefetch
        self._count: int | None = None
        self._prefetchers: list[Prefetcher] = []
        self._build: Callable[[], Iterator[list[Batch]]] | None = None
        self._ahead: BackgroundBuilder[Iterator[list[Batch]]] | None = None
        self._portion: Iterator[list[Batch]] = iter(())
        self._waited = 0.0

    @property
    def wait_seconds(self) -> float:
        """Return the seconds that `take` has waited for the building thread."""
        return self._waited + (self._ahead.wait_seconds if self._ahead else 0.0)

    def take(self, position: int, count: int | None) -> list[Batch]:
        """Return the global batch at `position`, of `count` lane rows; None: the phase's own size.

        Unless `stop` was called since, `position` must be where the last batch ended.
        """
        if count != self._count:
            self.stop(keep_rounds=True)
            self._count = count
        batches = next(self._portion, None)
        if batches is None:
            self._portion = (self._build or self._start(position))()
            batches = next(self._portion)
        return batches

    def stop(self, *, keep_rounds: bool = False, wait: bool = True) -> None:
        """Drop the batches that were built ahead, and the loaded rows unless `keep_rounds` and the thread ends in time.

        `wait` for that thread, less than a second.
        """
        self._portion, self._build = iter(()), None
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.stop()
            self._waited += ahead.wait_seconds
        if not (keep_rounds and (ahead is None or ahead.join())):
            for prefetcher in self._prefetchers:
                prefetcher.close()
            self._prefetchers = []
            if wait and ahead is not None:
                ahead.join()

    def _start(self, position: int) -> Callable[[], Iterator[list[Batch]]]:
        if not self._prefetchers:
            self._prefetchers = [Prefetcher(source, self._loaders, self._prefetch) for source in self._sources]
        builder = Builder(self._reading, self._prefetchers, self._assembly, position, self._count)
        if self._loaders is None:
            self._build = builder
            return builder
        ahead = BackgroundBuilder(builder, _BUILT_AHEAD)
        self._ahead, self._build = ahead, ahead.get
        return ahead.get
