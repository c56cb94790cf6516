from __future__ import annotations

import pytest

from clozeline.registry import choose


def test_values_of_the_paper() -> None:
    """η = 0.01 over 1,000 steps: the figures of equation 3 with its cut of a tenth and ratio of 32."""
    schedule = choose("clozeline.train.optim.schedules", "slanted_triangular").build(1000)
    found = {step: 0.01 * schedule(step) for step in (50, 100, 550, 1000, 1500)}
    assert found == pytest.approx({50: 5.15625e-3, 100: 1e-2, 550: 5.15625e-3, 1000: 3.125e-4, 1500: 3.125e-4})


def test_a_run_of_one_step_has_the_peak() -> None:
    assert choose("clozeline.train.optim.schedules", "slanted_triangular").build(1)(1) == 1.0


def test_a_warmup_is_the_rise() -> None:
    own, given = ({"name": "slanted_triangular"}, {"name": "slanted_triangular", "warmup": 100, "rise": 0.9})
    schedules = [choose("clozeline.train.optim.schedules", options).build(1000) for options in (own, given)]
    for step in range(1, 1200, 7):
        assert schedules[0](step) == schedules[1](step)
