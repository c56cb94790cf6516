"""LAMB against algorithm 2 of arXiv 1904.00962, written out in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.registry import choose
from tests.train.optim.optimizers.injected import SIZES, gradient, start_weights, whole_update


def test_updates_are_those_of_the_paper() -> None:
    chosen = {"name": "lamb", "learning_rate": 0.01, "betas": [0.8, 0.9], "eps": 1e-3}
    found = whole_update(chosen, 5)
    for name, start in start_weights().items():
        weight, first, second = start.double().numpy(), np.zeros(SIZES[name]), np.zeros(SIZES[name])
        for step in range(1, 6):
            pushed = gradient(name, SIZES[name], step).double().numpy()
            first, second = 0.8 * first + 0.2 * pushed, 0.9 * second + 0.1 * pushed**2
            direction = (first / (1 - 0.8**step)) / (np.sqrt(second / (1 - 0.9**step)) + 1e-3)
            if start.dim() > 1:
                direction = direction + 0.1 * weight
                direction *= np.linalg.norm(weight) / np.linalg.norm(direction)
            weight = weight - 0.01 * direction
        assert found[name].numpy() == pytest.approx(weight, rel=1e-5, abs=1e-6)


def test_a_parameter_of_zeros_moves_as_adam_does() -> None:
    """Its norm gives no ratio; and where the gradient is zero too, it stays."""
    weights = [torch.nn.Parameter(torch.zeros(2, 3)) for _ in range(2)]
    group = {"params": weights, "name": "decay", "weight_decay": 0.1}
    optimizer = (
        choose("clozeline.train.optim.optimizers", {"name": "lamb", "learning_rate": 0.5}).build().build([group])
    )
    weights[0].grad, weights[1].grad = torch.ones(2, 3), torch.zeros(2, 3)
    optimizer.step()
    torch.testing.assert_close(weights[0].detach(), torch.full((2, 3), -0.5))
    assert not weights[1].any()


@pytest.mark.parametrize("change", [{"betas": [0.9, 1.0]}, {"eps": 0}, {"learning_rate": 0}, {"weight_decay": -1}])
def test_values_out_of_range_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(change))):
        choose("clozeline.train.optim.optimizers", {"name": "lamb", **change})
