"""The base of optimizers over whole parameters; what they share is tested at every stage by test_every_stage."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from clozeline.train.optim.optimizers._whole_parameters import WholeParameterOptimizer, begin_update


class Recorder(WholeParameterOptimizer):
    """Keeps what it is asked to update."""

    def update(self, group: dict[str, Any], flat: Tensor, gradient: Tensor) -> None:
        step, state = begin_update(self, flat, ("sum",))
        state["sum"] += gradient
        self.seen = (group["name"], step, {name: mean.tolist() for name, mean in self.means(flat, gradient).items()})
        assert gradient.is_contiguous()


def test_updates_are_counted_and_means_are_those_of_whole_parameters() -> None:
    weight, idle = torch.zeros(2, 3), torch.zeros(2)
    optimizer = Recorder([{"name": "decay", "params": [weight, idle], "weight_decay": 0.0}], 0.1)
    for step in (1, 2):
        weight.grad = torch.arange(6.0).view(3, 2).T
        optimizer.step()
        assert optimizer.seen == ("decay", step, {"000000": [2.5]})
    assert torch.equal(optimizer.state[weight]["sum"], 2 * torch.arange(6.0).view(3, 2).T)
    assert idle not in optimizer.state
