"""Lion: the sign of an interpolated momentum, with decoupled weight decay (arXiv 2302.06675)."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.train.optim.optimizers import OptimizerBuilder, OptimizerOptions
from clozeline.train.optim.optimizers._whole_parameters import bundles


class Lion(OptimizerBuilder):
    """Algorithm 2 of the paper: every element moves by ± learning rate; half the state of Adam."""

    statistics: ClassVar[Literal["element"]] = "element"
    states: ClassVar[int] = 1

    @config_class
    class Options(OptimizerOptions):
        """Options of Lion; the paper lowers AdamW's learning rate 3 to 10 times and raises its decay as much."""

        learning_rate: float = Field(default=1e-4, gt=0.0, description="peak rate, > 0; the schedule multiplies it")
        weight_decay: float = Field(default=0.1, ge=0.0)
        """decoupled decay of matrices, ≥ 0; biases and norms have none"""
        betas: tuple[Annotated[float, Field(ge=0.0, lt=1.0)], Annotated[float, Field(ge=0.0, lt=1.0)]] = (0.9, 0.99)
        """Share of the momentum in the update, and its decay, 0 ≤ beta < 1."""

    options: Options

    def build(self, groups: Sequence[dict[str, Any]]) -> torch.optim.Optimizer:
        """Return the optimizer; each group keeps its weight decay."""
        return _Lion([{**group, "betas": self.options.betas} for group in groups], self.options.learning_rate)


class _Lion(torch.optim.Optimizer):
    """Lion over tensors of any shape."""

    def __init__(self, groups: Sequence[dict[str, Any]], rate: float) -> None:
        super().__init__(list(groups), {"lr": rate})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Do one step; a parameter without a gradient keeps its weight and its momentum."""
        for group in self.param_groups:
            share, decay = group["betas"]
            for parameters in bundles([parameter for parameter in group["params"] if parameter.grad is not None]):
                for parameter in parameters:
                    if not self.state[parameter]:
                        self.state[parameter]["exp_avg"] = torch.zeros_like(parameter, requires_grad=False)
                momenta = [self.state[parameter]["exp_avg"] for parameter in parameters]
                gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
                directions = torch._foreach_lerp(momenta, gradients, 1 - share)
                torch._foreach_sign_(directions)
                torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(parameters, directions, alpha=-group["lr"])
                torch._foreach_lerp_(momenta, gradients, 1 - decay)
