"""Freeze depths of a model during some steps.

Under ZeRO, `requires_grad` cannot change once the engine exists. All parameters require gradients;
frozen parameters get zero gradients, and neither weights nor optimizer states are updated.
"""

from abc import abstractmethod
from collections.abc import Collection
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from clozeline.model.configuration.capabilities import STATES_ON_DEVICE
from clozeline.train.hooks import Hook, HookContext, StepInfo
from clozeline.train.optim.weights.parameter_groups import depths_below_heads


class DepthFreezing(Hook):
    """Freezes all depths below the heads except those that train at a step."""

    by_depth = True
    needs: ClassVar = {STATES_ON_DEVICE}
    owns: ClassVar = {"the layers that train"}

    @abstractmethod
    def trained_depths(self, step: int) -> Collection[int]:
        """Return the depths that train at a step: 0 are the heads, 1 is the last layer."""

    def attach(self, context: HookContext) -> None:
        depths = depths_below_heads(context.model)
        for name, parameter in context.model.named_parameters():
            if parameter.requires_grad:
                mask = partial(self._gradient, depths[name])
                parameter.register_hook(mask)  # type: ignore[no-untyped-call]
        context.optimizer.register_step_pre_hook(self._drop_frozen_gradients)

    def begin(self, step: StepInfo) -> None:
        self._now = self.trained_depths(step.index)

    def _gradient(self, depth: int, gradient: Tensor) -> Tensor:
        return gradient if depth in self._now else torch.zeros_like(gradient)

    def _drop_frozen_gradients(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        for group in optimizer.param_groups:
            if group["depth"] not in self._now:
                for parameter in group["params"]:
                    parameter.grad = None
