"""Mix several shard sets in exact proportions, and change the mixture from phase to phase.

Every set has its order over the same lanes. A mixture says which set a lane reads at a position,
and each lane reads consecutive lane rows of each set: every row of every set is read once per
epoch, and the state is one integer. A timeline puts mixtures one after another; a set of an earlier
phase continues where it stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
from pydantic import NonNegativeInt

from clozeline.arrays import Int64
from clozeline.errors import ConfigurationError
from clozeline.pipeline.kernels.rates import largest_remainders

PERIOD: Final = 4096
"""Lane rows after which a mixture's pattern repeats; weights are rounded to multiples of 1 /
PERIOD."""


class SourceMixture:
    """Periodic pattern of sources: a lane reads table[(x + lane) mod period] at position x.

    Weights become counts per period by largest remainders. The next entry is always the source
    furthest below its share, so any part of the table holds each source in proportion to within
    about one row.

    Args:
        weights: relative share of each source, all above 0.

    Raises:
        ConfigurationError: a weight is not a finite number above 0, or too small for one row in a
            period.

    Example: weights (3, 1) give the table [0, 0, 1, 0, 0, 0, 1, 0 ...].
    """

    def __init__(self, weights: Sequence[float]) -> None:
        if not weights or min(weights) <= 0 or not isfinite(sum(weights)):
            raise ConfigurationError(
                f"weights: expected finite numbers above 0, got {list(weights)}"
            )

        self.period = 1 if len(weights) == 1 else PERIOD
        self.counts = np.array(largest_remainders(weights, self.period), np.int64)

        if not self.counts.all():
            raise ConfigurationError(
                f"weights: {list(weights)} leave source {int(np.argmin(self.counts))} without a "
                f"row among {self.period} rows; give it at least 1/{self.period} of the sum"
            )

        self.table = _interleave(self.counts)
        self._prefix = np.zeros((len(weights), self.period + 1), np.int64)
        for source in range(len(weights)):
            np.cumsum(self.table == source, out=self._prefix[source, 1:])
        self._entries = [np.flatnonzero(self.table == source) for source in range(len(weights))]

    def __len__(self) -> int:
        return len(self.counts)

    def row_shares(self, rows: Sequence[int], lanes: int, drawn: Sequence[int] = ()) -> list[float]:
        """Return each source's share of the real rows, given the rows of the sources.

        `drawn`: how often each source was drawn; empty: in proportion to the weights.

        Filler rows complete the lanes at the end of each epoch of a source. A source with few rows
        therefore has a smaller share than its weight.

        Example: with equal weights, 10 rows on 16 lanes (6 of 16 are filler) and 1,600 rows have
        shares of .385 and .615.
        """
        # exact: a log says .75 of a set with three quarters, and not .7499999999999999
        read = [
            Fraction(weight * count, -(-count // lanes) * lanes)
            for weight, count in zip(drawn or self.counts.tolist(), rows, strict=True)
        ]
        return [float(part / sum(read)) for part in read]

    def count_drawn(self, source: int, x: Int64) -> Int64:
        """Count the entries of a source among the first x of the endless table."""
        period, inside = np.divmod(x, self.period)
        taken: Int64 = period * self.counts[source] + self._prefix[source, inside]
        return taken

    def find_entry(self, source: int, number: int) -> int:
        """Return the index of a source's entry `number` in the endless table.

        This is the inverse of `count_drawn`.
        """
        period, inside = divmod(number, int(self.counts[source]))
        return period * self.period + int(self._entries[source][inside])


class SourceKey(NamedTuple):
    """Identity of a source: a shard set, and the corruption of its samples ("" for examples)."""

    name: str
    rows: int
    block_rows: int
    digest: str
    corruption: str = ""

    @property
    def order(self) -> tuple[str, int, int]:
        """Identity of the row order; a set and its copy in another container share it."""
        return self[:3]

    @property
    def content(self) -> tuple[str, int, int, str]:
        """Identity of the set, whatever the corruption of its samples."""
        return self[:4]


@dataclass(eq=False)
class Counter:
    """Lane rows that each lane has read from a set and its copies."""

    order: tuple[str, int, int]
    rows: Int64
    sets: set[tuple[str, int, int, str]]
    """contents of the sets that it counts"""


class SkippedRows(NamedTuple):
    """Rows that a rollback skipped: after `step` steps, the stream moved from `start` to `stop`."""

    step: NonNegativeInt
    start: NonNegativeInt
    stop: NonNegativeInt


SourceT = TypeVar("SourceT")


@dataclass(frozen=True)
class Phase(Generic[SourceT]):
    """One phase of the data; most runs have one phase of one source."""

    sources: tuple[SourceT, ...]
    """sets to mix, each once (with their corruptions), or their keys"""
    weights: tuple[float, ...] = ()
    """shares of the sources; empty: equal shares"""
    until_samples: int | None = None
    """position of the stream at which the phase ends; None for the last phase, which never ends"""
    global_batch: int | None = None
    """rows of a step; None: as many as in other steps of the stream"""

    def mixture(self) -> SourceMixture:
        """Return the mixture of the phase; weights (1, 1) and (2, 2) give the same mixture."""
        return SourceMixture(self.weights or (1.0,) * len(self.sources))


@dataclass(frozen=True, eq=False)
class PhaseSpan:
    """The lane rows of the stream that belong to one phase."""

    start: int
    """first lane row"""
    stop: int | None
    """lane row after the last; None: the span never ends"""
    sources: tuple[SourceKey, ...]
    mixture: SourceMixture
    global_batch: int
    """rows of a step"""
    base: Int64
    """[sources, lanes]: lane rows of each source that earlier phases have read"""
    counters: tuple[Counter, ...]
    """counters of these lane rows, by source"""

    def index_of(self, key: SourceKey) -> int | None:
        """Return the index of the source that is this set or a copy of it, or None."""
        contents = [source.content for source in self.sources]
        if key.content in contents:
            return contents.index(key.content)
        return next(
            (k for k, counter in enumerate(self.counters) if key.content in counter.sets), None
        )

    def draw_sources(self, lanes: Int64, positions: Int64) -> Int64:
        """Return the source that each lane reads at each position, [lanes, positions]."""
        drawn: Int64 = self.mixture.table[
            (positions - self.start + lanes[:, None]) % self.mixture.period
        ]
        return drawn

    def rows(self, k: int, lanes: Int64, positions: Int64) -> Int64:
        """Return the next lane row of source k for each lane and position, [lanes, positions]."""
        lane = lanes[:, None]
        first_row = self.base[k][lane] - self.mixture.count_drawn(k, lane)
        rows: Int64 = first_row + self.mixture.count_drawn(k, positions - self.start + lane)
        return rows

    def count_drawn(self, position: int) -> list[int]:
        """Return how often all lanes have drawn each source before a position."""
        lanes = np.arange(self.base.shape[1])
        bounds = np.array([self.start, position])
        return [int(np.diff(self.rows(k, lanes, bounds)).sum()) for k in range(len(self.sources))]

    def position(self, k: int, lane: int, row: int) -> int | None:
        """Return the position at which a lane reads a lane row of source k here, or None."""
        number = row - int(self.base[k, lane]) + int(self.mixture.count_drawn(k, np.array(lane)))
        if row < self.base[k, lane]:
            return None
        position = self.start + self.mixture.find_entry(k, number) - lane
        return position if self.stop is None or position < self.stop else None


class Timeline:
    """The spans of consecutive phases.

    Phases that ended by `read`, the samples read before a resume, are not checked against batch
    sizes.

    Raises:
        ConfigurationError: a phase ends before it starts, or within a global batch.
    """

    def __init__(
        self,
        phases: Sequence[Phase[SourceKey]],
        lanes: int,
        global_batch: int,
        read: int = 0,
    ) -> None:
        self.lanes = lanes
        self.spans: list[PhaseSpan] = []
        sizes = [phase.global_batch or global_batch for phase in phases]
        counters = _Counters(lanes)
        start = 0

        for number, phase in enumerate(phases):
            stop = _find_stop(phases, number, start * lanes, lanes, sizes[number], read)
            of_phase = counters.of(phase.sources)
            base = np.stack([counter.rows for counter in of_phase])
            span = PhaseSpan(
                start, stop, phase.sources, phase.mixture(), sizes[number], base, of_phase
            )
            self.spans.append(span)
            if stop is not None:
                for k, key in enumerate(phase.sources):
                    rows_at_stop = span.rows(k, np.arange(lanes), np.array([stop]))[:, 0]
                    counters.stop(key, of_phase[k], rows_at_stop)
                start = stop

    def at(self, position: int, count: int = 1) -> PhaseSpan:
        """Return the span of `count` lane rows from a position on; refuse rows of two phases."""
        span = next(span for span in reversed(self.spans) if position >= span.start)
        if span.stop is not None and position + count > span.stop:
            raise ConfigurationError(
                f"a global batch of {count * self.lanes} at {position * self.lanes} crosses the "
                f"end of a phase at {span.stop * self.lanes}"
            )
        return span


class _Counters:
    """Counters of all sets, phase by phase.

    A set is identified by its content. A set with new content counts as a copy in another container
    if a set that the phase does not read has its name, rows and blocks: it continues that counter.
    Otherwise it starts at its first row. Once a phase reads two sets that shared a counter, they
    are not copies: each continues where it stopped.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._all: list[Counter] = []
        self._of: dict[tuple[str, int, int, str], Counter] = {}
        self._stopped: dict[tuple[str, int, int, str], Int64] = {}

    def of(self, sources: Sequence[SourceKey]) -> tuple[Counter, ...]:
        """Return the counter of each source of the next phase; all counters differ."""
        known = [self._of[key.content] for key in sources if key.content in self._of]

        for key in sources:
            counter = self._of.get(key.content)
            if counter is not None and known.count(counter) > 1:
                counter = self._new(key, self._stopped[key.content])
            elif counter is None:
                free = (
                    other for other in self._all if other.order == key.order and other not in known
                )
                counter = next(free, None) or self._new(key, np.zeros(self._lanes, np.int64))
                known.append(counter)
            counter.sets.add(key.content)
            self._of[key.content] = counter

        return tuple(self._of[key.content] for key in sources)

    def stop(self, key: SourceKey, counter: Counter, rows: Int64) -> None:
        counter.rows = self._stopped[key.content] = rows

    def _new(self, key: SourceKey, rows: Int64) -> Counter:
        self._all.append(Counter(key.order, rows, set()))
        return self._all[-1]


def _find_stop(
    phases: Sequence[Phase[SourceKey]],
    number: int,
    start: int,
    lanes: int,
    global_batch: int,
    read: int,
) -> int | None:
    """Return the lane row at which phase `number` ends; None: never.

    It starts at `start` samples; `read` samples are consumed.
    """
    until = phases[number].until_samples

    # only the last phase is endless
    if until is None:
        if number + 1 < len(phases):
            raise ConfigurationError(
                f"phases: only the last may be endless: give phase {number} a share of the steps"
            )
        return None

    if number + 1 == len(phases):
        raise ConfigurationError(
            f"phases: the last must have no until_samples, got {until}: `steps` ends a run"
        )

    if until <= start:
        raise ConfigurationError(
            f"phases: phase {number} ends at {until} samples, but begins at {start}"
        )

    if until <= read:
        return until // lanes

    # a phase that is not over must end with a global batch, and with a full row of the lanes
    for size, first, unit in (
        (global_batch, max(start, read), "its global batch"),
        (lanes, 0, "the lanes"),
    ):
        if (until - first) % size:
            fits = first + (until - first) // size * size
            where = "where the checkpoint is" if read > start else "where it begins"
            raise ConfigurationError(
                f"phases: until_samples {until} of phase {number} is not a multiple of "
                f"{size}{f', counted from {first}, {where}' if first else ''}, {unit}; nearest: "
                f"{fits} or {fits + size}"
            )

    return until // lanes


def _interleave(counts: Int64) -> Int64:
    """Return a table with each source `counts` times, the largest deficit next, ties by index."""
    period = int(counts.sum())
    table = np.empty(period, np.int64)
    deficit = np.zeros(len(counts), np.int64)
    for position in range(period):
        deficit += counts
        table[position] = source = int(np.argmax(deficit))
        deficit[source] -= period
    return table
