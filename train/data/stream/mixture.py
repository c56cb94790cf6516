"""Several shard sets in one stream: in exact proportions, one after another, or both; pure arithmetic.

Every set keeps an order of its own over the same lanes. A mixture says which set a lane reads at a position, so that
each lane reads consecutive lane rows of each set: what holds for one set (every row once an epoch, one integer of
state) holds for each set of a mixture. A timeline puts mixtures one after another; a set that comes back
continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from clozeline.arrays import Int64
from clozeline.errors import ConfigurationError
from clozeline.pipeline.kernels.rates import largest_remainders

PERIOD: Final = 4096
"""Lane rows after which a mixture's pattern repeats; weights are rounded to multiples of 1 / PERIOD."""


class Mixture:
    """The pattern in which lanes read several sources; source(lane, x) = table[(x + lane) mod period].

    Weights become counts over a period by largest remainders. The table always takes the source that lags most
    below its share, so any stretch of it holds each source in proportion to within about one row.

    Args:
        weights: relative share of each source, all above 0.
        period: length of the pattern; one source alone needs 1.

    Raises:
        ConfigurationError: a weight is not a finite number above 0, or so small that it has no place in a period.

    Example: weights (2, 1) over a period of 3 give counts [2, 1] and the table [0, 1, 0].
    """

    def __init__(self, weights: Sequence[float], period: int = PERIOD) -> None:
        if not weights or min(weights) <= 0 or not isfinite(sum(weights)):
            raise ConfigurationError(f"weights: expected finite numbers above 0, got {list(weights)}")
        self.period = 1 if len(weights) == 1 else period
        self.counts = np.array(largest_remainders(weights, self.period), np.int64)
        if not self.counts.all():
            raise ConfigurationError(
                f"weights: {list(weights)} leave source {int(np.argmin(self.counts))} without a place among "
                f"{self.period} rows; give it at least 1/{self.period} of the sum"
            )
        self.table = _interleave(self.counts)
        self._prefix = np.zeros((len(weights), self.period + 1), np.int64)
        for source in range(len(weights)):
            np.cumsum(self.table == source, out=self._prefix[source, 1:])
        self._entries = [np.flatnonzero(self.table == source) for source in range(len(weights))]

    def __len__(self) -> int:
        return len(self.counts)

    def count_drawn(self, source: int, x: Int64) -> Int64:
        """Count a source among the first x entries of the endless table."""
        period, inside = np.divmod(x, self.period)
        taken: Int64 = period * self.counts[source] + self._prefix[source, inside]
        return taken

    def find_entry(self, source: int, number: int) -> int:
        """Index, in the endless table, of a source's entry `number`: the inverse of `taken`."""
        period, inside = divmod(number, int(self.counts[source]))
        return period * self.period + int(self._entries[source][inside])


class SourceKey(NamedTuple):
    """Identity of a source: a shard set, and the corruption of its samples in the stream ("" for examples)."""

    name: str
    rows: int
    block_rows: int
    digest: str
    corruption: str = ""

    @property
    def order(self) -> tuple[str, int, int]:
        """Return what decides the order of the rows: a set and its copy in another container share it."""
        return self[:3]


Key: TypeAlias = SourceKey | int
"""A source as phases name it; in pure arithmetic a number is enough."""


@dataclass(eq=False)
class Counter:
    """Lane rows that each lane has read of a set, and of copies of it that continued where it stopped."""

    order: object
    rows: Int64
    sets: set[object]
    """identities of the sets that were read under it"""


S = TypeVar("S")


@dataclass(frozen=True)
class Phase(Generic[S]):
    """One phase of the data; most runs have one phase of one source.

    Args:
        sources: what is mixed, each once: sets with their corruptions, or only the keys of them.
        weights: their shares; empty: equal ones.
        until_samples: position of the stream at which the phase ends; None: never, only for the last.
        global_batch: rows of a step; None: the stream's own.
    """

    sources: tuple[S, ...]
    weights: tuple[float, ...] = ()
    until_samples: int | None = None
    global_batch: int | None = None

    def mixture(self, period: int = PERIOD) -> Mixture:
        """Return the mixture that the phase draws; weights of 1 and 1 give the same one as 2 and 2."""
        return Mixture(self.weights or (1.0,) * len(self.sources), period)


@dataclass(frozen=True, eq=False)
class Stretch:
    """The lane rows `start .. stop` of a stream that a phase decides (None: no end), `global_batch` rows a step.

    `base[k, lane]` = lane rows of source k read before, under `counters[k]`.
    """

    start: int
    stop: int | None
    sources: tuple[Key, ...]
    mixture: Mixture
    global_batch: int
    base: Int64
    counters: tuple[Counter, ...]

    @cached_property
    def uniform(self) -> bool:
        """Return whether all lanes read the same lane row at a position: one source that was never mixed before."""
        return len(self.sources) == 1 and bool((self.base[0] == self.base[0, 0]).all())

    def index_of(self, key: Key) -> int | None:
        """Return which of the phase's sources reads the rows of a set: the set itself, or a copy of it."""
        identity, known = _identity(key), [_identity(source) for source in self.sources]
        if identity in known:
            return known.index(identity)
        return next((k for k, counter in enumerate(self.counters) if identity in counter.sets), None)

    def draw_sources(self, lanes: Int64, positions: Int64) -> Int64:
        """Return which of the phase's sources each lane reads, shape [lanes, positions]."""
        drawn: Int64 = self.mixture.table[(positions - self.start + lanes[:, None]) % self.mixture.period]
        return drawn

    def rows(self, k: int, lanes: Int64, positions: Int64) -> Int64:
        """Return the next lane row of source k for each lane at each position, shape [lanes, positions]."""
        lane = lanes[:, None]
        before = self.base[k][lane] - self.mixture.count_drawn(k, lane)
        rows: Int64 = before + self.mixture.count_drawn(k, positions - self.start + lane)
        return rows

    def position(self, k: int, lane: int, row: int) -> int | None:
        """Return the position at which a lane reads a lane row of source k in this phase, None if it does not."""
        number = row - int(self.base[k, lane]) + int(self.mixture.count_drawn(k, np.array(lane)))
        if row < self.base[k, lane]:
            return None
        position = self.start + self.mixture.find_entry(k, number) - lane
        return position if self.stop is None or position < self.stop else None


class Timeline:
    """Phases one after another, and the lane rows of each.

    Args:
        phases: in order.
        lanes: L.
        global_batch: rows of a step where a phase says nothing.
        period: of the mixtures.
        read: samples that were read already: phases that ended by then are as they were, whatever batches they had.

    Raises:
        ConfigurationError: a phase ends before it begins, or where no whole batch ends.
    """

    def __init__(
        self, phases: Sequence[Phase[Key]], lanes: int, global_batch: int, period: int = PERIOD, read: int = 0
    ) -> None:
        self.lanes = lanes
        self.stretches: list[Stretch] = []
        sizes = [phase.global_batch or global_batch for phase in phases]
        counters = _Counters(lanes)
        start = 0
        for number, phase in enumerate(phases):
            stop = _find_stop(phases, number, start * lanes, lanes, sizes[number], read)
            counted = counters.of(phase.sources)
            base = np.stack([counter.rows for counter in counted])
            stretch = Stretch(start, stop, phase.sources, phase.mixture(period), sizes[number], base, counted)
            self.stretches.append(stretch)
            if stop is not None:
                for k, key in enumerate(phase.sources):
                    counters.stop(key, counted[k], stretch.rows(k, np.arange(lanes), np.array([stop]))[:, 0])
                start = stop

    def at(self, position: int, count: int = 1) -> Stretch:
        """Return the stretch of `count` lane rows from a position on.

        Raises:
            ConfigurationError: they do not lie in one phase.
        """
        stretch = next(stretch for stretch in reversed(self.stretches) if position >= stretch.start)
        if stretch.stop is not None and position + count > stretch.stop:
            raise ConfigurationError(
                f"a global batch of {count * self.lanes} at {position * self.lanes} crosses the end of a phase at "
                f"{stretch.stop * self.lanes}"
            )
        return stretch


class _Counters:
    """The counters of all sets, phase by phase.

    A set is counted by its content. A set whose content is new continues the counter of a set with its name, rows and
    blocks that the phase does not read, because a copy in another container has this form; else it begins with its
    first row. Two sets that shared a counter are no copies once a phase reads both: each continues where it stopped.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._all: list[Counter] = []
        self._of: dict[object, Counter] = {}
        self._stopped: dict[object, Int64] = {}

    def of(self, sources: Sequence[Key]) -> tuple[Counter, ...]:
        """Return the counter of each source of the next phase, all different."""
        known = [self._of[identity] for identity in map(_identity, sources) if identity in self._of]
        for key in sources:
            identity, counter = _identity(key), self._of.get(_identity(key))
            if counter is not None and known.count(counter) > 1:
                counter = self._new(key, self._stopped[identity])
            elif counter is None:
                free = (other for other in self._all if other.order == _order(key) and other not in known)
                counter = next(free, None) or self._new(key, np.zeros(self._lanes, np.int64))
                known.append(counter)
            counter.sets.add(identity)
            self._of[identity] = counter
        return tuple(self._of[_identity(key)] for key in sources)

    def stop(self, key: Key, counter: Counter, rows: Int64) -> None:
        """Note the lane rows that the lanes have read of a source by the end of a phase."""
        counter.rows = self._stopped[_identity(key)] = rows

    def _new(self, key: Key, rows: Int64) -> Counter:
        self._all.append(Counter(_order(key), rows, set()))
        return self._all[-1]


def _identity(key: Key) -> object:
    """Return what tells the content of a set from that of others, whatever corrupts it."""
    return key if isinstance(key, int) else (*key.order, key.digest)


def _order(key: Key) -> object:
    return key if isinstance(key, int) else key.order


def _find_stop(
    phases: Sequence[Phase[Key]], number: int, start: int, lanes: int, global_batch: int, read: int
) -> int | None:
    """Return the lane row at which a phase ends that begins at `start` samples; `read` samples have been read."""
    until = phases[number].until_samples
    if until is None:
        if number + 1 < len(phases):
            raise ConfigurationError(f"phases: only the last may be endless, phase {number} has no until_samples")
        return None
    if number + 1 == len(phases):
        raise ConfigurationError(f"phases: the last must have no until_samples, got {until}: `steps` ends a run")
    if until <= start:
        raise ConfigurationError(f"phases: phase {number} ends at {until} samples, but begins at {start}")
    if until <= read:
        return until // lanes
    begin = max(start, read)
    for size, first, what in ((global_batch, begin, "its global batch"), (lanes, 0, "the lanes")):
        if (until - first) % size:
            fits = first + (until - first) // size * size
            where = "where the checkpoint is" if read > start else "where it begins"
            raise ConfigurationError(
                f"phases: until_samples {until} of phase {number} is not a multiple of {size}"
                f"{f', counted from {first}, {where}' if first else ''}, {what}; nearest: {fits} or {fits + size}"
            )
    return until // lanes


def _interleave(counts: Int64) -> Int64:
    """Return a table with each source `counts` times; the source with the largest deficit is next, ties by index."""
    period = int(counts.sum())
    table = np.empty(period, np.int64)
    deficit = np.zeros(len(counts), np.int64)
    for position in range(period):
        deficit += counts
        table[position] = source = int(np.argmax(deficit))
        deficit[source] -= period
    return table
