from __future__ import annotations

import math

import pytest

from clozeline.registry import choose


def test_after_the_warmup_comes_half_a_cosine() -> None:
    """Warm-up 2, horizon 6: steps 1 to 6, and one beyond the horizon."""
    schedule = choose("clozeline.train.optim.schedules", {"name": "cosine", "warmup": 2, "final": 0.0}).build(6)
    assert [schedule(step) for step in range(1, 8)] == pytest.approx(
        [0.5, 1.0, 0.5 + math.sqrt(2) / 4, 0.5, 0.5 - math.sqrt(2) / 4, 0.0, 0.0]
    )
