"""Freeze depths of a model during some steps.

Gradual unfreezing (arXiv 1801.06146, section 3.3) trains the heads, then one more layer from the top at a time.

Under ZeRO, `requires_grad` cannot change once the engine exists. So all parameters require gradients; frozen ones get
zero gradients, and no update of weights or optimizer state.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from clozeline.train.optim.weights.parameter_groups import depths_below_heads


class DepthFreezing:
    """Freezes groups by depth: all but those that `trained` returns for a step, counted from 1."""

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, trained: Callable[[int], Collection[int]]
    ) -> None:
        """Hook into gradients and optimizer steps."""
        self._trained, self._now = trained, trained(1)
        depths = depths_below_heads(model)
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.register_hook(partial(self._gradient, depths[name]))  # type: ignore[no-untyped-call]
        optimizer.register_step_pre_hook(self._drop_frozen_gradients)

    def begin(self, step: int) -> None:
        """Start a step, counted from 1."""
        self._now = self._trained(step)

    def _gradient(self, depth: int, gradient: Tensor) -> Tensor:
        return gradient if depth in self._now else torch.zeros_like(gradient)

    def _drop_frozen_gradients(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            if group["depth"] not in self._now:
                for parameter in group["params"]:
                    parameter.grad = None


def unfreeze_from_the_top(optimizer: torch.optim.Optimizer, every: int) -> Callable[[int], Collection[int]]:
    """Return the depths that gradual unfreezing trains at a step: after `every` steps, one more."""
    depths = sorted({group["depth"] for group in optimizer.param_groups})
    return lambda step: depths[: (step - 1) // every + 1]
