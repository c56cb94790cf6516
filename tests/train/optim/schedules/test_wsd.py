from __future__ import annotations

import math

import pytest

from clozeline.registry import choose


def test_a_stable_rate_falls_over_the_last_share() -> None:
    """Ten steps, the last four of which fall by one minus the root of the passed share."""
    schedule = choose("clozeline.train.optim.schedules", {"name": "wsd", "warmup": 2, "decay": 0.4}).build(10)
    roots = [1 - math.sqrt(share) for share in (0.25, 0.5, 0.75, 1.0, 1.0)]
    assert [schedule(step) for step in range(1, 12)] == pytest.approx([0.5, 1.0, 1.0, 1.0, 1.0, 1.0, *roots])


def test_it_ends_at_its_floor() -> None:
    schedule = choose("clozeline.train.optim.schedules", {"name": "wsd", "final": 0.1}).build(100)
    assert [schedule(80), schedule(100), schedule(200)] == pytest.approx([1.0, 0.1, 0.1])


@pytest.mark.parametrize(("steps", "begin"), [(10, 6), (10, 9), (7, 2)])
def test_a_decay_from_a_step_is_that_of_the_share_that_ends_there(steps: int, begin: int) -> None:
    """And 1 - sqrt of the share passed since then, whatever `decay` says."""
    schedule = choose("clozeline.train.optim.schedules", {"name": "wsd", "decay_from": begin, "decay": 0.9}).build(
        steps
    )
    expected = [1.0] * begin + [1 - math.sqrt(n / (steps - begin)) for n in range(1, steps - begin + 1)]
    assert [schedule(step) for step in range(1, steps + 1)] == pytest.approx(expected)


def test_one_minus_the_root_of_all_that_follows_the_warmup() -> None:
    schedule = choose("clozeline.train.optim.schedules", {"name": "wsd", "warmup": 3, "decay": 1.0}).build(12)
    expected = [1 / 3, 2 / 3, 1.0, *(1 - math.sqrt(n / 9) for n in range(1, 10))]
    assert [schedule(step) for step in range(1, 13)] == pytest.approx(expected)
