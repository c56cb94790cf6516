from __future__ import annotations

import pytest

from tests.train.synthetic import tiny
from train.cost_estimate import CostEstimate, PhaseCost, estimate_memory


@pytest.mark.parametrize(
    ("stage", "precision", "world", "per_parameter"),
    [
        (0, "fp32", 2, 4 + 4 + 8),
        (1, "fp32", 1, 4 + 4 + 8),
        (2, "fp32", 1, 4 + 4 + 8),
        (3, "fp32", 1, 4 + 4 + 12),
        (1, "bf16", 1, 2 + 6 + 12),
        (1, "fp32", 2, 4 + 4 + 12 / 2),
        (2, "fp32", 2, 4 + 4 / 2 + 12 / 2),
        (3, "fp32", 2, (4 + 4 + 12) / 2),
        (1, "bf16", 4, 2 + 6 + 12 / 4),
        (2, "bf16", 4, 2 + 14 / 4),
        (3, "bf16", 4, 16 / 4),
    ],
)
def test_bytes_per_parameter(stage: int, precision: str, world: int, per_parameter: float) -> None:
    estimate = estimate_memory(tiny(zero__stage=stage, precision=precision), 1000, world)
    assert estimate.total == pytest.approx(1000 * per_parameter)


def test_a_moving_average_is_one_more_state() -> None:
    estimate = estimate_memory(tiny(zero__stage=1, average={}), 1000, 2)
    assert estimate.optimizer == pytest.approx(1000 * 16 / 2)


def test_operations_of_samples_follow_the_phases() -> None:
    """Steps of 8 rows at 10 operations a row, then of 16 rows at 100; rows beyond the plan cost what the last do."""
    phases = (PhaseCost(3, 8, 1.0, 10.0, {}), PhaseCost(2, 16, 1.0, 100.0, {}))
    cost = CostEstimate({}, 5, 0, 0, 8, 1, phases, 0, 0, 0.0, (), 1, {})
    per_row = [10.0] * 24 + [100.0] * 60
    assert [cost.flops_until(samples) for samples in range(84)] == [sum(per_row[:samples]) for samples in range(84)]
