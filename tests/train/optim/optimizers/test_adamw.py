from __future__ import annotations

import numpy as np
import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.registry import choose
from clozeline.train.optim.weights.parameter_groups import parameter_groups


def test_adamw_step_by_hand() -> None:
    """Two steps of the published rule (arXiv 1711.05101, algorithm 2) on one number with decay, one without."""
    layer = torch.nn.Linear(1, 1)
    torch.nn.init.constant_(layer.weight, 2.0)
    torch.nn.init.constant_(layer.bias, -1.0)
    options = {"name": "adamw", "learning_rate": 0.1, "weight_decay": 0.5, "betas": [0.8, 0.9], "eps": 1e-3}
    optimizer = choose("clozeline.train.optim.optimizers", options).build().build(parameter_groups(layer, 0.5))
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


@pytest.mark.parametrize("size", [16, 1003])
def test_every_element_of_a_long_tensor_follows_the_rule(size: int) -> None:
    """Three steps in float64 beside it: whole vectors of the kernel and the elements left over at the end."""
    draws = np.random.default_rng(5).normal(size=(4, size))
    weight = torch.nn.Parameter(torch.tensor(draws[0], dtype=torch.float32))
    options = {"name": "adamw", "learning_rate": 0.01, "betas": [0.8, 0.9], "eps": 1e-3}
    group = {"params": [weight], "name": "decay", "weight_decay": 0.5}
    optimizer = choose("clozeline.train.optim.optimizers", options).build().build([group])
    values, first, second = draws[0], np.zeros(size), np.zeros(size)
    for step, gradient in enumerate(draws[1:], start=1):
        weight.grad = torch.tensor(gradient, dtype=torch.float32)
        optimizer.step()
        first, second = 0.8 * first + 0.2 * gradient, 0.9 * second + 0.1 * gradient**2
        update = (first / (1 - 0.8**step)) / (np.sqrt(second / (1 - 0.9**step)) + 1e-3)
        values = values * (1 - 0.01 * 0.5) - 0.01 * update
    assert weight.detach().numpy() == pytest.approx(values, rel=1e-5, abs=1e-7)


def test_options_reach_every_group_and_each_keeps_its_decay() -> None:
    options = {"name": "adamw", "learning_rate": 0.25, "betas": [0.8, 0.9], "eps": 1e-3}
    optimizer = (
        choose("clozeline.train.optim.optimizers", options).build().build(parameter_groups(torch.nn.Linear(3, 2), 0.5))
    )
    for group in optimizer.param_groups:
        assert (group["lr"], group["betas"], group["eps"]) == (0.25, (0.8, 0.9), 1e-3)
        assert group["fused"], "one pass over weights and moments, on the CPU too"
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.5, 0.0]


@pytest.mark.parametrize("change", [{"betas": [0.9, 1.0]}, {"eps": 0}, {"learning_rate": 0}, {"weight_decay": -1}])
def test_values_out_of_range_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(change))):
        choose("clozeline.train.optim.optimizers", {"name": "adamw", **change})
