"""Features of all schedules: the warm-up, the horizon, and no state."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.registry import choose, names

NAMES = names("clozeline.train.optim.schedules")
WARM = [name for name in NAMES if name != "slanted_triangular"]
"""Schedules that rise by a warm-up."""


@pytest.mark.parametrize("name", WARM)
@settings(max_examples=40)
@given(warmup=st.integers(0, 30), steps=st.integers(1, 60), order=st.randoms(use_true_random=False))
def test_rates_follow_from_the_step_alone(name: str, warmup: int, steps: int, order: object) -> None:
    schedule = choose("clozeline.train.optim.schedules", {"name": name, "warmup": warmup}).build(steps)
    values = {step: schedule(step) for step in range(1, 100)}
    for step in order.sample(range(1, 100), 20):  # type: ignore[attr-defined]
        assert schedule(step) == values[step]
    assert all(0.0 <= value <= 1.0 for value in values.values())
    assert [values[step] for step in range(1, warmup)] == pytest.approx([step / warmup for step in range(1, warmup)])
    falling = [values[step] for step in range(max(1, warmup), 100)]
    assert falling == sorted(falling, reverse=True)
    if name != "inverse_sqrt":
        assert len({values[step] for step in range(max(steps, warmup, 1), 100)}) == 1, "it keeps its last value"


@pytest.mark.parametrize("name", WARM)
def test_without_warmup_and_with_one_step(name: str) -> None:
    schedule = choose("clozeline.train.optim.schedules", {"name": name}).build(1)
    assert 0.0 <= schedule(1) <= 1.0
    assert choose("clozeline.train.optim.schedules", {"name": name, "warmup": 10}).build(5)(3) == pytest.approx(0.3)


@pytest.mark.parametrize("change", [{"warmup": -1}, {"steps": 0}, {"warmup": 1.5}, {"cycles": 2}])
@pytest.mark.parametrize("name", NAMES)
def test_wrong_options_are_refused(name: str, change: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(change))):
        choose("clozeline.train.optim.schedules", {"name": name, **change})


@pytest.mark.parametrize("name", ["linear", "cosine", "constant", "polynomial", "wsd"])
def test_a_horizon_before_the_end_of_the_warmup_leaves_the_rate_at_its_peak(name: str) -> None:
    """A horizon that was frozen by a short first start, for example."""
    schedule = choose("clozeline.train.optim.schedules", {"name": name, "warmup": 10}).build(5)
    assert [schedule(step) for step in range(8, 14)] == pytest.approx([0.8, 0.9, 1.0, 1.0, 1.0, 1.0])


@pytest.mark.parametrize("name", ["cosine", "linear", "polynomial"])
def test_a_falling_rate_ends_at_its_floor(name: str) -> None:
    schedule = choose("clozeline.train.optim.schedules", {"name": name, "warmup": 3, "final": 0.1}).build(20)
    values = [schedule(step) for step in range(3, 30)]
    assert values == sorted(values, reverse=True)
    assert values[0] == 1.0
    assert values[17:] == pytest.approx([0.1] * 10)
    assert values[16] > 0.1
