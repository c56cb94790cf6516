from __future__ import annotations

import pytest

from clozeline.registry import choose


def test_after_the_warmup_comes_a_power_of_the_rest() -> None:
    schedule = choose("clozeline.train.optim.schedules", {"name": "polynomial", "power": 2, "warmup": 2}).build(6)
    assert [schedule(step) for step in range(1, 8)] == pytest.approx([0.5, 1.0, 0.5625, 0.25, 0.0625, 0.0, 0.0])


def test_the_first_power_is_a_line() -> None:
    curve = choose(
        "clozeline.train.optim.schedules", {"name": "polynomial", "power": 1, "warmup": 3, "final": 0.1}
    ).build(20)
    line = choose("clozeline.train.optim.schedules", {"name": "linear", "warmup": 3, "final": 0.1}).build(20)
    assert [curve(step) for step in range(1, 30)] == pytest.approx([line(step) for step in range(1, 30)])
