"""Gradual unfreezing (arXiv 1801.06146, section 3.3): heads learn first, then one more layer from the top at a time.

Under ZeRO a parameter cannot begin to require a gradient once the engine is made. Here all do, and those whose time has
not come get a gradient of zeros, which no norm sees, and no update: neither of weights nor of the optimizer's state.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from clozeline.train.optim.weights.parameter_groups import depths_below_heads


class Unfreezing:
    """Parameter groups that learn at a step: a function of the step alone."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, every: int) -> None:
        """Watch the gradients of a model and the steps of its optimizer.

        Args:
            model: whose parameters these are.
            optimizer: has one or two groups for each depth below the heads, which they name.
            every: steps after which the next depth begins to learn.
        """
        self.every = every
        self.depths = sorted({group["depth"] for group in optimizer.param_groups})
        """Depths in the order in which they begin."""
        self.deepest = self.depths[0]
        """Lowest depth that learns at the present step."""
        depths = depths_below_heads(model)
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.register_hook(partial(self._gradient, depths[name]))  # type: ignore[no-untyped-call]
        optimizer.register_step_pre_hook(self._leave_out)

    def begin(self, step: int) -> None:
        """Set the step, counted from 1."""
        self.deepest = self.depths[min((step - 1) // self.every, len(self.depths) - 1)]

    def _gradient(self, depth: int, gradient: Tensor) -> Tensor:
        return gradient if depth <= self.deepest else torch.zeros_like(gradient)

    def _leave_out(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Take the gradients of groups whose time has not come, so that the optimizer passes over their parameters."""
        for group in optimizer.param_groups:
            if group["depth"] > self.deepest:
                for parameter in group["params"]:
                    parameter.grad = None
