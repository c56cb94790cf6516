from __future__ import annotations

import math

import pytest

from pipeline.registry import choose, names

CASES = {
    "linear": ({"final": 0.0}, [0.5, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0]),
    "cosine": ({"final": 0.0}, [0.5, 1.0, 0.5 + math.sqrt(2) / 4, 0.5, 0.5 - math.sqrt(2) / 4, 0.0, 0.0]),
    "constant": ({}, [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
    "inverse_sqrt": ({}, [0.5, 1.0, math.sqrt(2 / 3), math.sqrt(1 / 2), math.sqrt(2 / 5), math.sqrt(2 / 6), None]),
}


@pytest.mark.parametrize("name", names("train.schedules"))
def test_closed_form_points(name: str) -> None:
    """Warm-up 2, horizon 6: steps 1 to 6, and one beyond the horizon."""
    options, expected = CASES[name]
    schedule = choose("train.schedules", {"name": name, "warmup": 2, **options}).build(6)
    expected = [math.sqrt(2 / 7) if value is None else value for value in expected]
    assert [schedule(step) for step in range(1, 8)] == pytest.approx(expected)


@pytest.mark.parametrize("name", names("train.schedules"))
def test_without_warmup_and_with_one_step(name: str) -> None:
    schedule = choose("train.schedules", {"name": name}).build(1)
    assert 0.0 <= schedule(1) <= 1.0
    assert choose("train.schedules", {"name": name, "warmup": 10}).build(5)(3) == pytest.approx(0.3)


@pytest.mark.parametrize(("name", "final"), [("linear", 0.1), ("cosine", 0.1)])
def test_floor(name: str, final: float) -> None:
    schedule = choose("train.schedules", {"name": name, "warmup": 3, "final": final}).build(20)
    values = [schedule(step) for step in range(3, 30)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(final)
