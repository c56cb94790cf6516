from __future__ import annotations

import pytest
import torch

from pipeline.registry import choose, find, names
from train.parameter_groups import parameter_groups


@pytest.mark.parametrize("name", names("train.optimizers"))
def test_contract(name: str) -> None:
    assert isinstance(find("train.optimizers", name).elementwise, bool)
    optimizer = choose("train.optimizers", name).build().build(parameter_groups(torch.nn.Linear(3, 2), 0.1))
    assert [group["name"] for group in optimizer.param_groups] == ["decay", "no_decay"]
