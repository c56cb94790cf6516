from __future__ import annotations

import math

import pytest

from clozeline.registry import choose


def test_after_the_warmup_comes_the_inverse_square_root() -> None:
    """Warm-up 2, horizon 6: steps 1 to 6, and one beyond the horizon."""
    schedule = choose("clozeline.train.optim.schedules", {"name": "inverse_sqrt", "warmup": 2}).build(6)
    assert [schedule(step) for step in range(1, 8)] == pytest.approx(
        [0.5, 1.0, *(math.sqrt(2 / step) for step in range(3, 8))]
    )


def test_the_horizon_has_no_effect() -> None:
    near, far = (
        choose("clozeline.train.optim.schedules", {"name": "inverse_sqrt", "warmup": 4}).build(steps)
        for steps in (5, 500)
    )
    assert [near(step) for step in range(1, 100)] == [far(step) for step in range(1, 100)]
    assert (near(16), near(64)) == (0.5, 0.25)
