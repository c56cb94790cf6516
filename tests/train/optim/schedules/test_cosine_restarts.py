"""Cosine with restarts against the scheduler of torch."""

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts

from clozeline.train.registries import SCHEDULES
from tests.refusals import refused

CASE = {"period": 7}


def schedule_of(steps, **options):
    return SCHEDULES.resolve({"name": "cosine_restarts", **options}).build(steps)


@pytest.mark.parametrize(
    ("period", "growth", "final"), [(1, 1, 0.0), (5, 1, 0.2), (3, 2, 0.0), (4, 3, 0.05)]
)
@pytest.mark.parametrize("warmup", [0, 6])
def test_cycles_are_those_of_torch(period, growth, final, warmup):
    """Each optimizer step after the warm-up is an epoch of its scheduler."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    theirs = CosineAnnealingWarmRestarts(optimizer, T_0=period, T_mult=growth, eta_min=final)
    schedule = schedule_of(100, warmup=warmup, period=period, growth=growth, final=final)

    for step in range(warmup + 1, 90):
        assert schedule(step) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-12), step
        optimizer.step()
        theirs.step()


def test_each_cycle_starts_at_the_peak_and_the_last_value_stays():
    schedule = schedule_of(14, period=2, growth=2)
    peaks = [step for step in range(1, 15) if schedule(step) == 1.0]
    assert peaks == [1, 3, 7]
    assert schedule(20) == schedule(14) == pytest.approx(0.0380602, abs=1e-7)


@pytest.mark.parametrize(
    "change",
    [
        {"period": 0},
        {"growth": 0},
        {"final": 1.5},
        {},
    ],
)
def test_cycles_without_steps_are_refused(change):
    with refused(next(iter(change), "period")):
        schedule_of(10, **{**({"period": 2} if change else {}), **change})
