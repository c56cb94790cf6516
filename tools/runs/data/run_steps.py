"""The samples of each step of a run."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from clozeline.errors import ConfigurationError
from clozeline.train.data.stream.mixture import Timeline

_NOT_RECORDED: Final = (
    "with data.batch_tokens, steps differ in rows: only steps of metrics.jsonl are known, each one with log.every=1"
)


class Step(NamedTuple):
    """A step, counted from 1, the position at which its global batch begins, and the rows of that."""

    number: int
    begin: int
    rows: int


class RunSteps:
    """The steps that a run recorded, and from there on those that its configuration says.

    The two differ where a run went on with another global batch.

    Args:
        timeline: the phases.
        taken: steps done and samples read by then, ascending; steps between two of them are equally large.
        by_tokens: they are not, as `data.batch_tokens` decides: only recorded steps are known.

    Example: a global batch of 32, after `taken` [(4, 64)]: step 4 begins at 48 with 16 rows, step 5 at 64 with 32.
    """

    def __init__(self, timeline: Timeline, taken: Sequence[tuple[int, int]] = (), *, by_tokens: bool = False) -> None:
        self._timeline = timeline
        self._by_tokens = by_tokens
        self._done = [0, *(done for done, _ in taken)]
        self._read = [0, *(read for _, read in taken)]

    def numbered(self, number: int) -> Step:
        """Return the step with a number."""
        after = bisect_left(self._done, number)
        if after < len(self._done):
            rows = self._recorded(after)
            return Step(number, self._read[after - 1] + (number - 1 - self._done[after - 1]) * rows, rows)
        for first, stop, rows in self._planned():
            step = Step(number, first.begin + (number - first.number) * rows, rows)
            if stop is None or step.begin < stop:
                return step
        raise AssertionError("the last phase has no end")

    def at(self, samples: int) -> Step:
        """Return the step whose global batch holds a position."""
        after = bisect_right(self._read, samples)
        if after < len(self._read):
            rows = self._recorded(after)
            ahead = (samples - self._read[after - 1]) // rows
            return Step(self._done[after - 1] + 1 + ahead, self._read[after - 1] + ahead * rows, rows)
        for first, stop, rows in self._planned():
            if stop is None or samples < stop:
                ahead = (samples - first.begin) // rows
                return Step(first.number + ahead, first.begin + ahead * rows, rows)
        raise AssertionError("the last phase has no end")

    def _recorded(self, after: int) -> int:
        """Return rows of the steps up to record `after`."""
        if self._by_tokens and self._done[after] - self._done[after - 1] > 1:
            raise ConfigurationError(_NOT_RECORDED)
        return (self._read[after] - self._read[after - 1]) // (self._done[after] - self._done[after - 1])

    def _planned(self) -> Iterator[tuple[Step, int | None, int]]:
        """Yield, for each phase to come, its first step, its end, and its rows a step."""
        if self._by_tokens:
            raise ConfigurationError(_NOT_RECORDED)
        number, begin = self._done[-1] + 1, self._read[-1]
        for stretch in self._timeline.stretches:
            stop, rows = None if stretch.stop is None else stretch.stop * self._timeline.lanes, stretch.global_batch
            if stop is not None and stop <= begin:
                continue
            yield Step(number, begin, rows), stop, rows
            if stop is not None:
                number, begin = number + (stop - begin) // rows, stop
