"""Find which samples each step of a run reads."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from clozeline.errors import ConfigurationError
from clozeline.train.data.stream.mixture import Timeline

_NOT_RECORDED: Final = (
    "with data.batch_tokens, steps differ in rows: only steps of metrics.jsonl are known, each one with log.every=1"
)


class Step(NamedTuple):
    """A step, counted from 1, the stream position at which its global batch starts, and its number of rows."""

    number: int
    begin: int
    rows: int


class RunSteps:
    """The steps that a run recorded, followed by those that its configuration plans.

    The two differ if a run continued with another global batch. `taken` lists (step, samples read by then), ascending;
    steps between two records have equally many rows. With `by_tokens`, rows per step vary, and only recorded steps are
    known.

    Example: a global batch of 32, after `taken` [(4, 64)]: step 4 begins at 48 with 16 rows, step 5 at 64 with 32.
    """

    def __init__(self, timeline: Timeline, taken: Sequence[tuple[int, int]] = (), *, by_tokens: bool = False) -> None:
        self._timeline = timeline
        self._by_tokens = by_tokens
        self._done = [0, *(done for done, _ in taken)]
        self._read = [0, *(read for _, read in taken)]

    def step_of(self, number: int) -> Step:
        """Return a step by its number."""
        # between two records, steps have equally many rows
        after = bisect_left(self._done, number)
        if after < len(self._done):
            rows = self._rows_between_records(after)
            return Step(number, self._read[after - 1] + (number - 1 - self._done[after - 1]) * rows, rows)
        for first, stop, rows in self._plan_steps():
            step = Step(number, first.begin + (number - first.number) * rows, rows)
            if stop is None or step.begin < stop:
                return step
        raise AssertionError("the last phase has no end")

    def at(self, samples: int) -> Step:
        """Return the step whose global batch contains a position."""
        after = bisect_right(self._read, samples)
        if after < len(self._read):
            rows = self._rows_between_records(after)
            ahead = (samples - self._read[after - 1]) // rows
            return Step(self._done[after - 1] + 1 + ahead, self._read[after - 1] + ahead * rows, rows)
        for first, stop, rows in self._plan_steps():
            if stop is None or samples < stop:
                ahead = (samples - first.begin) // rows
                return Step(first.number + ahead, first.begin + ahead * rows, rows)
        raise AssertionError("the last phase has no end")

    def _rows_between_records(self, after: int) -> int:
        if self._by_tokens and self._done[after] - self._done[after - 1] > 1:
            raise ConfigurationError(_NOT_RECORDED)
        return (self._read[after] - self._read[after - 1]) // (self._done[after] - self._done[after - 1])

    def _plan_steps(self) -> Iterator[tuple[Step, int | None, int]]:
        """Yield the first step, the end and the rows per step of each coming phase."""
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
