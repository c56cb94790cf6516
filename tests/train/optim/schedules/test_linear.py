from __future__ import annotations

import pytest

from clozeline.registry import choose


def test_after_the_warmup_comes_a_straight_line() -> None:
    """Warm-up 2, horizon 6: steps 1 to 6, and one beyond the horizon."""
    schedule = choose("clozeline.train.optim.schedules", {"name": "linear", "warmup": 2, "final": 0.0}).build(6)
    assert [schedule(step) for step in range(1, 8)] == pytest.approx([0.5, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0])
