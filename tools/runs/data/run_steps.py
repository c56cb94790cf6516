"""Find which samples each step of a run reads."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from clozeline.errors import ConfigurationError
from clozeline.train.data.stream.mixture import SkippedRows, Timeline

_NOT_RECORDED: Final = (
    "with data.batch_tokens, steps differ in rows: only steps of metrics.jsonl are known, each one "
    "with log.every=1"
)


class Step(NamedTuple):
    """A step: its number from 1, the stream position of its batch, and its rows."""

    number: int
    begin: int
    rows: int


class RunSteps:
    """The steps that a run recorded, followed by those that its configuration plans.

    The two differ if a run continued with another global batch. `taken` lists (step, samples read
    by then), ascending; steps between two records have equally many rows. With `by_tokens`, rows
    per step vary, and only recorded steps are known. The rows in `skipped` were read by steps that
    the rollback took back.

    Example: a global batch of 32, after `taken` [(4, 64)]: step 4 begins at 48 with 16 rows, step 5
    at 64 with 32.
    """

    def __init__(
        self,
        timeline: Timeline,
        taken: Sequence[tuple[int, int]] = (),
        *,
        by_tokens: bool = False,
        skipped: Sequence[SkippedRows] = (),
    ) -> None:
        self._timeline = timeline
        self._by_tokens = by_tokens
        self._skipped = skipped
        # step → position after it; a rollback to a step gives one, too
        ends = {0: 0} | {step: start for step, start, _ in reversed(skipped)} | dict(taken)
        jumps = {step: stop for step, _, stop in skipped}
        self._done = sorted(ends)
        self._read = [ends[done] for done in self._done]
        self._next = [jumps.get(done, ends[done]) for done in self._done]
        """Positions at which the steps after `_done` start."""

    def step_of(self, number: int) -> Step:
        """Return a step by its number."""
        # between two records, steps have equally many rows
        after = bisect_left(self._done, number)
        if after < len(self._done):
            rows = self._rows_between_records(after)
            return Step(
                number, self._next[after - 1] + (number - 1 - self._done[after - 1]) * rows, rows
            )
        for first, stop, rows in self._plan_steps(self._done[-1] + 1, self._next[-1]):
            step = Step(number, first.begin + (number - first.number) * rows, rows)
            if stop is None or step.begin < stop:
                return step
        raise AssertionError("the last phase has no end")

    def at(self, samples: int) -> Step:
        """Return the step whose global batch contains a position."""
        number = self._done[-1] + 1
        begin = self._next[-1]

        if taken_back := self.skipped(samples):
            number = taken_back.step + 1
            begin = taken_back.start
            if self._by_tokens:
                return Step(number, begin, taken_back.stop - begin)
        elif (after := bisect_right(self._read, samples)) < len(self._read):
            rows = self._rows_between_records(after)
            ahead = (samples - self._next[after - 1]) // rows
            return Step(
                self._done[after - 1] + 1 + ahead, self._next[after - 1] + ahead * rows, rows
            )

        for first, stop, rows in self._plan_steps(number, begin):
            if stop is None or samples < stop:
                ahead = (samples - first.begin) // rows
                return Step(first.number + ahead, first.begin + ahead * rows, rows)

        raise AssertionError("the last phase has no end")

    def skipped(self, samples: int) -> SkippedRows | None:
        """Return the rollback that skipped the row at a position, if one did."""
        return next((rows for rows in self._skipped if rows.start <= samples < rows.stop), None)

    def _rows_between_records(self, after: int) -> int:
        if self._by_tokens and self._done[after] - self._done[after - 1] > 1:
            raise ConfigurationError(_NOT_RECORDED)
        return (self._read[after] - self._next[after - 1]) // (
            self._done[after] - self._done[after - 1]
        )

    def _plan_steps(self, number: int, begin: int) -> Iterator[tuple[Step, int | None, int]]:
        """Yield first step, end and rows per step of each phase, from a step and position on."""
        if self._by_tokens:
            raise ConfigurationError(_NOT_RECORDED)
        for span in self._timeline.spans:
            stop = None if span.stop is None else span.stop * self._timeline.lanes
            rows = span.global_batch
            if stop is not None and stop <= begin:
                continue
            yield Step(number, begin, rows), stop, rows
            if stop is not None:
                number = number + (stop - begin) // rows
                begin = stop
