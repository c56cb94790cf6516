from __future__ import annotations

import pytest
import torch
from torch import nn

from pipeline.errors import ConfigurationError
from train.parameter_groups import parameter_groups


def small() -> nn.Module:
    model = nn.ModuleDict(
        {"table": nn.Embedding(7, 4), "dense": nn.Linear(4, 4), "norm": nn.LayerNorm(4), "out": nn.Linear(4, 7)}
    )
    model["out"].weight = model["table"].weight
    model["dense"].bias.requires_grad_(False)
    return model


def test_every_trainable_parameter_once() -> None:
    model = small()
    groups = parameter_groups(model, 0.1)
    named = {id(p): name for name, p in model.named_parameters()}
    found = {group["name"]: [named[id(p)] for p in group["params"]] for group in groups}
    assert found == {"decay": ["table.weight", "dense.weight"], "no_decay": ["norm.weight", "norm.bias", "out.bias"]}
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]


def test_empty_group_is_left_out() -> None:
    assert [group["name"] for group in parameter_groups(nn.Linear(2, 2, bias=False), 0.1)] == ["decay"]


def test_scalar_parameter_is_refused() -> None:
    model = nn.Module()
    model.scale = nn.Parameter(torch.tensor(1.0))
    with pytest.raises(ConfigurationError, match=r"scale has no dimension: give it the shape \[1\]"):
        parameter_groups(model, 0.0)
