from __future__ import annotations

import numpy as np
import pytest
import torch

from pipeline.registry import choose, find, names
from train.parameter_groups import parameter_groups


@pytest.mark.parametrize("name", names("train.optimizers"))
def test_contract(name: str) -> None:
    assert isinstance(find("train.optimizers", name).elementwise, bool)
    optimizer = choose("train.optimizers", name).build().build(parameter_groups(torch.nn.Linear(3, 2), 0.1))
    assert [group["name"] for group in optimizer.param_groups] == ["decay", "no_decay"]


def test_adamw_step_by_hand() -> None:
    """Two steps of the published rule (arXiv 1711.05101, algorithm 2) on one number with decay, one without."""
    layer = torch.nn.Linear(1, 1)
    torch.nn.init.constant_(layer.weight, 2.0)
    torch.nn.init.constant_(layer.bias, -1.0)
    options = {"name": "adamw", "learning_rate": 0.1, "weight_decay": 0.5, "betas": [0.8, 0.9], "eps": 1e-3}
    optimizer = choose("train.optimizers", options).build().build(parameter_groups(layer, 0.5))
    values, first, second = np.array([2.0, -1.0]), np.zeros(2), np.zeros(2)
    for step, gradient in enumerate([np.array([0.3, -0.7]), np.array([-0.2, 0.4])], start=1):
        layer.weight.grad = torch.full((1, 1), float(gradient[0]))
        layer.bias.grad = torch.full((1,), float(gradient[1]))
        optimizer.step()
        first, second = 0.8 * first + 0.2 * gradient, 0.9 * second + 0.1 * gradient**2
        update = (first / (1 - 0.8**step)) / (np.sqrt(second / (1 - 0.9**step)) + 1e-3)
        values = values * (1 - 0.1 * np.array([0.5, 0.0])) - 0.1 * update
    assert layer.weight.item() == pytest.approx(values[0], rel=1e-5)
    assert layer.bias.item() == pytest.approx(values[1], rel=1e-5)
