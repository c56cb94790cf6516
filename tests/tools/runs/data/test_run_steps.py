"""Steps in closed form against a loop over them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.tools.runs.data.run_steps import RunSteps, Step
from clozeline.train.data.stream.mixture import Phase, Timeline

PLANS = [Phase((0,), (), 48, 8), Phase((0,), (), 96, None), Phase((0,), (), None, 16)]


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


@pytest.mark.parametrize(("number", "step"), [(4, Step(4, 48, 16)), (5, Step(5, 64, 32))])
def test_the_example_of_the_docstring(number, step):
    steps = RunSteps(Timeline([Phase((0,))], 4, 32), [(4, 64)])
    assert steps.step_of(number) == step
