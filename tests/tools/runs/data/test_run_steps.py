"""Steps in closed form against a loop over them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.tools.runs.data.run_steps import RunSteps, Step
from clozeline.train.data.stream.mixture import Phase, SkippedRows, Timeline
from tests.train.data.stream.streams import keys

PLANS = [Phase(keys(0), (), 48, 8), Phase(keys(0), (), 96, None), Phase(keys(0), (), None, 16)]


def slow(taken: list[int], until: int) -> list[Step]:
    """One step after another: those taken, then 8 rows up to sample 48, 4 up to 96, and 16."""
    steps, begin = [], 0
    for rows in taken:
        steps.append(Step(len(steps) + 1, begin, rows))
        begin += rows
    while begin < until:
        rows = 8 if begin < 48 else 4 if begin < 96 else 16
        steps.append(Step(len(steps) + 1, begin, rows))
        begin += rows
    return steps


@given(st.lists(st.sampled_from([4, 8, 16]), max_size=12), st.integers(1, 3))
def test_steps_and_positions_are_inverse(sizes, lines_every):
    while sum(sizes) not in (0, 48) and sum(sizes) % 16:
        sizes.append(4)
    expected = slow(sizes, 300)
    ends = [(step.number, step.begin + step.rows) for step in expected[: len(sizes)]]
    uniform = len(set(sizes)) <= 1
    taken = [end for place, end in enumerate(ends, 1) if not uniform or place % lines_every == 0 or place == len(ends)]
    steps = RunSteps(Timeline(PLANS, 2, 4), taken)
    for step in expected:
        assert steps.step_of(step.number) == step
        assert {steps.at(step.begin + inside) for inside in range(step.rows)} == {step}


def test_skipped_rows_of_steps_by_tokens_are_one_step():
    """Which of the steps that were taken back read a row is not known; the others are those of the records."""
    steps = RunSteps(Timeline(PLANS, 2, 4), [(1, 8), (2, 64)], by_tokens=True, skipped=[SkippedRows(1, 8, 48)])
    assert steps.at(20) == Step(2, 8, 40)
    assert steps.at(50) == steps.step_of(2) == Step(2, 48, 16)


@pytest.mark.parametrize(("number", "step"), [(4, Step(4, 48, 16)), (5, Step(5, 64, 32))])
def test_the_example_of_the_docstring(number, step):
    steps = RunSteps(Timeline([Phase(keys(0))], 4, 32), [(4, 64)])
    assert steps.step_of(number) == step


def with_rollbacks(rollbacks: list[tuple[int, int]], rows_at) -> tuple[list[Step], list[tuple[int, int, int]]]:
    """The steps that count, one after another, and the rows skipped: after `more` steps, a return by some of them."""
    steps, begin, skipped = [], 0, []
    for more, back in [*rollbacks, (12, 0)]:
        for _ in range(more):
            steps.append(Step(len(steps) + 1, begin, rows_at(begin)))
            begin += steps[-1].rows
        if lost := steps[len(steps) - back :] if back else []:
            del steps[-len(lost) :]
            skipped = [entry for entry in skipped if entry.step <= len(steps)]  # others are taken back
            start = lost[0].begin
            # rows that were skipped before the first of the lost steps are skipped in any case
            skipped.append(SkippedRows(len(steps), start, begin))
    return steps, skipped


@given(
    st.lists(st.integers(1, 8).flatmap(lambda more: st.tuples(st.just(more), st.integers(1, more + 2))), max_size=3),
    st.integers(1, 4),
    st.integers(0, 12),
)
def test_steps_after_rollbacks_go_on_behind_the_skipped_rows(rollbacks, every, unrecorded):
    """With records of each step and phases, and with records of some and one size; none of the last steps."""
    plan = PLANS if every == 1 else [Phase(keys(0), (), None, 8)]
    steps, skipped = with_rollbacks(rollbacks, lambda begin: 8 if every > 1 or begin < 48 else 4 if begin < 96 else 16)
    recorded = steps[: len(steps) - unrecorded]
    taken = [(step.number, step.begin + step.rows) for step in recorded if step.number % every == 0]
    known = RunSteps(Timeline(plan, 2, 4), taken, skipped=skipped)
    for step in steps:
        assert known.step_of(step.number) == step
        assert {known.at(step.begin + inside) for inside in range(step.rows)} == {step}
        assert known.skipped(step.begin) is None
    for back_to, start, stop in skipped:
        assert known.skipped(start) == known.skipped(stop - 1) == (back_to, start, stop)
        assert known.at(start) == Step(back_to + 1, start, known.at(start).rows)
