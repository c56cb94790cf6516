"""Gradual unfreezing (arXiv 1801.06146, section 3.3): train the heads, then one more layer from the top at a time.

Under ZeRO, `requires_grad` cannot change once the engine exists. So all parameters require gradients; frozen ones get
zero gradients, and no update of weights or optimizer state.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from clozeline.train.optim.weights.parameter_groups import depths_below_heads


class Unfreezing:
    """Freezes groups by depth, as a function of the step alone."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, every: int) -> None:
        """Hook into gradients and optimizer steps."""
        self.every = every
        self.depths = sorted({group["depth"] for group in optimizer.param_groups})
        """Depths in the order of unfreezing."""
        self.deepest = self.depths[0]
        """Deepest trainable depth at this step."""
        depths = depths_below_heads(model)
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.register_hook(partial(self._gradient, depths[name]))  # type: ignore[no-untyped-call]
        optimizer.register_step_pre_hook(self._drop_frozen_gradients)

    def begin(self, step: int) -> None:
        """Start a step, counted from 1."""
        self.deepest = self.depths[min((step - 1) // self.every, len(self.depths) - 1)]

    def _gradient(self, depth: int, gradient: Tensor) -> Tensor:
        return gradient if depth <= self.deepest else torch.zeros_like(gradient)

    def _drop_frozen_gradients(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            if group["depth"] > self.deepest:
                for parameter in group["params"]:
                    parameter.grad = None
