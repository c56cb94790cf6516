from __future__ import annotations

import pytest
import torch

from clozeline.registry import choose, find, names
from clozeline.train.optim.optimizers import OptimizerBuilder
from clozeline.train.optim.weights.parameter_groups import parameter_groups


@pytest.mark.parametrize("name", names("clozeline.train.optim.optimizers"))
def test_contract(name: str) -> None:
    kind = find("clozeline.train.optim.optimizers", name)
    assert kind.statistics in ("element", "parameter", "matrix")
    assert (kind.bind is OptimizerBuilder.bind) == (kind.statistics == "element")
    optimizer = (
        choose("clozeline.train.optim.optimizers", name).build().build(parameter_groups(torch.nn.Linear(3, 2), 0.1))
    )
    assert [group["name"] for group in optimizer.param_groups] == ["decay", "no_decay"]


@pytest.mark.parametrize("name", names("clozeline.train.optim.optimizers"))
def test_a_parameter_without_a_gradient_stays_and_has_no_state(name: str) -> None:
    layer = torch.nn.Linear(3, 2)
    before = [parameter.detach().clone() for parameter in layer.parameters()]
    optimizer = choose("clozeline.train.optim.optimizers", name).build().build(parameter_groups(layer, 0.1))
    optimizer.step()
    assert all(map(torch.equal, before, layer.parameters()))
    assert not any(optimizer.state.values())


@pytest.mark.parametrize("name", names("clozeline.train.optim.optimizers"))
def test_an_element_has_as_many_states_as_the_estimate_of_memory_counts(name: str) -> None:
    layer = torch.nn.Linear(3, 2)
    builder = choose("clozeline.train.optim.optimizers", name).build()
    optimizer = builder.build(parameter_groups(layer, 0.1))
    builder.follow(optimizer, [0.0, *[1.0] * 9])  # a rising held-out loss: averages begin
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    sizes = [value.numel() for value in optimizer.state[layer.weight].values() if value.numel() > 1]
    assert sizes == [layer.weight.numel()] * builder.states
