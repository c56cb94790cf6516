"""Build batches ahead of the training thread: gather rows, split and collate them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clozeline.arrays import Int64
from clozeline.pipeline.rows import RowBatch
from clozeline.report.html_page import fragment
from clozeline.report.views import Section, Table
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.mixture import PhaseSpan
from clozeline.train.data.stream.padding import empty_rows
from clozeline.train.data.stream.reading_order import ReadingOrder
from clozeline.train.data.stream.rounds import Rounds, Source
from clozeline.train.data.stream.threads import BackgroundBuilder, LoaderThreads

_BUILT_AHEAD: Final = 2
"""Results of `Builder` that wait for the training thread."""
_ROWS_AT_ONCE: Final = 1024
"""Rows of a rank that are gathered at once: enough to make the cost of a batch small."""
_VALUES_AT_ONCE: Final = 1 << 19
"""Values that are gathered at once: 4 MiB of int64 stay in cache."""


class Batch(NamedTuple):
    """One micro-batch. The caller may write into its tensors, except `position_ids`.

    Its rows may share memory.
    """

    tensors: dict[str, Tensor]
    """model inputs by name, with `row_weight`"""
    row_weight: Tensor
    """float32 [B]; 0 = filler row"""
    origin: NDArray[np.int64]
    """int64 [B, 3]: source, stored block (over all shards), row in it; -1 for filler"""
    samples: int
    """position of the stream after the global batch that this micro-batch belongs to"""
    epoch: float
    """the same position in epochs, a fraction"""

    def __repr__(self) -> str:
        shapes = (f"{name} {list(tensor.shape)}" for name, tensor in self.tensors.items())
        return f"Batch({int((self.row_weight > 0).sum())} rows: {', '.join(shapes)})"

    def _repr_html_(self) -> str:
        """Return a table of the tensors for a notebook."""
        rows = [
            (name, str(tensor.dtype).removeprefix("torch."), str(list(tensor.shape)))
            for name, tensor in self.tensors.items()
        ]
        title = f"batch of {int((self.row_weight > 0).sum())} rows, epoch {self.epoch:.2f}"
        return fragment(Section(title, [Table("", ("tensor", "type", "shape"), rows)]))


@dataclass(frozen=True)
class Assembly:
    """Settings that turn rows into batches."""

    collate: Collate
    micro_batch: int
    row_values: int
    """most values of a row; it limits the rows that are gathered at once"""
    by_length: bool
    """sort a rank's rows of a global batch by length before they are split"""


class Builder:
    """Builds consecutive global batches, a few in each call."""

    def __init__(
        self,
        reading: ReadingOrder,
        rounds: Sequence[Rounds],
        assembly: Assembly,
        position: int,
    ) -> None:
        self.reading = reading
        self.rounds = rounds
        self.assembly = assembly
        self.position = position
        self._span: PhaseSpan | None = None
        self._read: list[Rounds] = []  # of the span, by source

    def __call__(self) -> list[list[Batch]]:
        """Return the next global batches, each as the micro-batches of this rank."""
        # find the span at this position, and how many of its batches to build at once
        position = self.position
        assembly = self.assembly
        count = self.reading.span_at(position).global_batch // self.reading.lanes
        span = self._enter(self.reading.span_at(position, count))
        lanes = np.arange(*self.rounds[0].source.lanes)
        size = len(lanes) * count
        batches = max(1, min(_ROWS_AT_ONCE, _VALUES_AT_ONCE // assembly.row_values) // size)
        if span.stop is not None:
            batches = min(batches, (span.stop - position) // count)
        # stop at the end of the round: a damaged block of the next one must not fail this call
        if len(self._read) == 1:
            (next_row,) = span.rows(0, lanes[:1], np.array([position]))[0].tolist()
            batches = max(1, min(batches, self._read[0].remaining(next_row) // count))

        # gather the rows of these batches
        positions = np.arange(position, position + batches * count)
        rows = self._gather(span, lanes, positions, batches)

        if assembly.by_length:
            lengths = rows.columns["input_ids"].lengths.reshape(batches, size)
            order = np.argsort(lengths, axis=1, kind="stable") + np.arange(batches)[:, None] * size
            rows = rows.take(order.reshape(-1))

        # split them into micro-batches, and collate each
        ends = positions[count - 1 :: count] + 1
        self.position = int(ends[-1])
        epochs = self._epochs(span, ends)
        global_batches = []

        for number, (end, epoch) in enumerate(zip(ends.tolist(), epochs, strict=True)):
            starts = range(number * size, (number + 1) * size, assembly.micro_batch)
            samples = end * self.reading.lanes
            global_batches.append([self._batch(rows, start, samples, epoch) for start in starts])

        return global_batches

    def _enter(self, span: PhaseSpan) -> PhaseSpan:
        """Start a span: drop the loaded rows of sets that it does not read."""
        if span is not self._span:
            numbers = [n for key in span.sources if (n := self.reading.number(key)) is not None]
            self._span = span
            self._read = [self.rounds[n] for n in numbers]
            for rounds in self.rounds:
                if rounds not in self._read:
                    rounds.clear()
        return span

    def _gather(self, span: PhaseSpan, lanes: Int64, positions: Int64, batches: int) -> RowBatch:
        """Return the rows of consecutive batches, each batch lane by lane.

        A cell takes the next row of the set that its lane draws there.
        """
        # cells [lanes x positions]: a cell has row `part_rows` of part `part_numbers`; row 0 is
        # filler
        drawn = span.draw_sources(lanes, positions).ravel()
        parts: list[RowBatch] = []
        part_numbers = np.zeros_like(drawn)
        part_rows = np.zeros_like(drawn)

        for k, rounds in enumerate(self._read):
            cell = np.flatnonzero(drawn == k)
            if len(cell):
                lane_rows = span.rows(k, lanes, positions)
                # a lane that draws nothing from this set may be at an earlier row
                first = int(lane_rows[:, 0].min())
                found = rounds.find(first, cell // len(positions), lane_rows.take(cell))
                for rows, here, row_here in found:
                    part_numbers[cell[here]] = len(parts)
                    part_rows[cell[here]] = row_here
                    parts.append(rows)

        # order the cells by batch, then lane, then position
        part_numbers, part_rows = (
            cells.reshape(len(lanes), batches, -1).swapaxes(0, 1).reshape(-1)
            for cells in (part_numbers, part_rows)
        )

        # gather once if all rows are of one round; else gather from each round, then sort the rows
        names = dict.fromkeys(name for rounds in self._read for name in rounds.source.columns)
        if len(parts) == 1:
            return _add_empty_columns(parts[0], names).take(part_rows)
        cells = [np.flatnonzero(part_numbers == number) for number in range(len(parts))]
        taken_rows = [
            _add_empty_columns(rows, names).take(part_rows[cell])
            for rows, cell in zip(parts, cells, strict=True)
        ]
        return RowBatch.concatenate(taken_rows).take(np.argsort(np.concatenate(cells)))

    def _epochs(self, span: PhaseSpan, ends: Int64) -> list[float]:
        """Return the largest number of epochs read of any set, at each lane row of the stream."""
        first_lane = np.zeros(1, np.int64)
        read = [
            span.rows(k, first_lane, ends)[0] / rounds.source.order.lane_rows
            for k, rounds in enumerate(self._read)
        ]
        epochs: list[float] = np.max(read, axis=0).tolist()
        return epochs

    def _batch(self, rows: RowBatch, start: int, samples: int, epoch: float) -> Batch:
        """Collate the micro-batch that starts at a row."""
        part = rows.cut(start, start + self.assembly.micro_batch)
        origin = part.fixed["origin"]
        tensors = self.assembly.collate(part.columns, part.fixed["weight"], origin[:, 0])
        return Batch(tensors, tensors["row_weight"], origin, samples, epoch)


def _add_empty_columns(rows: RowBatch, names: Mapping[str, None]) -> RowBatch:
    """Return rows with the named columns, empty where their set does not have the column."""
    empty = empty_rows(len(rows), np.uint8)
    return RowBatch(rows.fixed, {name: rows.columns.get(name, empty) for name in names})


class Batches:
    """The batches of a stream in order; threads load rounds and build batches ahead."""

    def __init__(
        self,
        reading: ReadingOrder,
        sources: Sequence[Source],
        assembly: Assembly,
        threads: LoaderThreads,
        prefetch: int,
    ) -> None:
        self._reading = reading
        self._sources = sources
        self._assembly = assembly
        self._threads = threads
        self._prefetch = prefetch
        self._rounds: list[Rounds] = []
        self._build: Callable[[], list[list[Batch]]] | None = None
        self._ahead: BackgroundBuilder[list[list[Batch]]] | None = None
        self._built: Iterator[list[Batch]] = iter(())
        self._waited = 0.0

    @property
    def wait_seconds(self) -> float:
        """Seconds that `take` has waited for the building thread."""
        return self._waited + (self._ahead.wait_seconds if self._ahead else 0.0)

    def take(self, position: int) -> list[Batch]:
        """Return the global batch at `position`.

        Unless `stop` was called since, `position` must be where the last batch ended.
        """
        batches = next(self._built, None)
        if batches is None:
            self._built = iter((self._build or self._start(position))())
            batches = next(self._built)
        return batches

    def stop(self, *, wait: bool = True) -> None:
        """Drop the batches that were built ahead, and the loaded rows.

        With `wait`, wait for the building thread, less than a second.
        """
        self._built = iter(())
        self._build = None
        ahead = self._ahead
        self._ahead = None
        if ahead is not None:
            ahead.stop()
            self._waited += ahead.wait_seconds

        for rounds in self._rounds:
            rounds.close()
        self._rounds = []
        if wait and ahead is not None:
            ahead.join()

    def _start(self, position: int) -> Callable[[], list[list[Batch]]]:
        self._rounds = [Rounds(source, self._threads, self._prefetch) for source in self._sources]
        self._build = Builder(self._reading, self._rounds, self._assembly, position)
        if self._threads.count:
            self._ahead = BackgroundBuilder(self._build, _BUILT_AHEAD)
            self._build = self._ahead.get
        return self._build
