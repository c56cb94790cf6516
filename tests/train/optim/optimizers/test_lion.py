"""Lion against algorithm 2 of arXiv 2302.06675, written out in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.registry import choose
from clozeline.train.optim.optimizers.lion import Lion
from tests.train.optim.optimizers.injected import SIZES, gradient, start_weights, whole_update


def test_updates_are_those_of_the_paper() -> None:
    chosen = {"name": "lion", "learning_rate": 0.01, "betas": [0.8, 0.95]}
    found = whole_update(chosen, 5)
    for name, start in start_weights().items():
        weight, momentum = start.double().numpy(), np.zeros(SIZES[name])
        decay = 0.1 if start.dim() > 1 else 0.0
        for step in range(1, 6):
            pushed = gradient(name, SIZES[name], step).double().numpy()
            direction = np.sign(0.8 * momentum + 0.2 * pushed)
            weight = weight - 0.01 * (direction + decay * weight)
            momentum = 0.95 * momentum + 0.05 * pushed
        assert found[name].numpy() == pytest.approx(weight, rel=1e-5, abs=1e-6)


def test_a_parameter_without_a_gradient_stays() -> None:
    weight = torch.nn.Parameter(torch.ones(2, 2))
    optimizer = (
        choose("clozeline.train.optim.optimizers", "lion")
        .build()
        .build([{"params": [weight], "name": "d", "weight_decay": 1.0}])
    )
    optimizer.step()
    assert torch.equal(weight, torch.ones(2, 2))
    weight.grad = torch.zeros(2, 2)
    optimizer.step()
    assert torch.equal(weight, torch.full((2, 2), 1 - 1e-4)), "a gradient of zero has no direction, decay remains"
    assert len(optimizer.state[weight]) == Lion.states


@pytest.mark.parametrize("change", [{"betas": [0.9, 1.0]}, {"learning_rate": 0}, {"weight_decay": -1}])
def test_values_out_of_range_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(change))):
        choose("clozeline.train.optim.optimizers", {"name": "lion", **change})
