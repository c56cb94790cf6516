"""The base of optimizers over whole parameters; what they share is tested at every stage by test_every_stage."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from clozeline.train.optim.optimizers import _whole_parameters
from clozeline.train.optim.optimizers._whole_parameters import WholeParameterOptimizer


class Recorder(WholeParameterOptimizer):
    """Keeps what it is asked to update."""

    seen: list[tuple[Any, ...]]

    def update(self, group: dict[str, Any], flats: list[Tensor], gradients: list[Tensor]) -> None:
        steps, sums = self.states_of(flats, "sum")
        torch._foreach_add_(steps, 1)
        torch._foreach_add_(sums, gradients)
        self.seen.append((group["name"], float(steps[0]), len(flats)))
        assert all(gradient.is_contiguous() for gradient in gradients)


def test_updates_are_counted_for_each_parameter() -> None:
    weight, late, idle = torch.zeros(2, 3), torch.zeros(3), torch.zeros(2)
    optimizer = Recorder([{"name": "decay", "params": [weight, late, idle], "weight_decay": 0.0}], 0.1)
    optimizer.seen = []
    for step in (1, 2):
        weight.grad = torch.arange(6.0).view(3, 2).T
        late.grad = torch.full((3,), 2.0) if step == 2 else None
        optimizer.step()
    # parameters of different ages are updated apart
    assert optimizer.seen == [("decay", 1, 1), ("decay", 2, 1), ("decay", 1, 1)]
    assert torch.equal(optimizer.state[weight]["sum"], 2 * torch.arange(6.0).view(3, 2).T)
    assert optimizer.state[weight]["step"] == 2
    assert idle not in optimizer.state


def test_a_bound_of_elements_are_updated_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_whole_parameters, "_CACHED", 10)
    weights = [torch.ones(4) for _ in range(6)]
    optimizer = Recorder([{"name": "decay", "params": weights, "weight_decay": 0.0}], 0.1)
    optimizer.seen = []
    for weight in weights:
        weight.grad = torch.ones(4)
    optimizer.step()
    assert [count for _, _, count in optimizer.seen] == [2, 2, 2]
