"""LAMB: Adam with a step proportional to the norm of each parameter (arXiv 1904.00962), for very large batches."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import config_class
from clozeline.train.optim.optimizers import OptimizerOptions
from clozeline.train.optim.optimizers._whole_parameters import (
    WholeParameterBuilder,
    WholeParameterOptimizer,
    begin_update,
)


class Lamb(WholeParameterBuilder):
    """With u = m̂ / (√v̂ + eps) + decay · w, a parameter moves by rate · |w| / |u| · u; norms over the entire parameter.

    The ratio is 1 where a norm is 0, and in groups without decay: biases and norms, or all if `weight_decay` is 0.
    """

    statistics: ClassVar[Literal["parameter"]] = "parameter"
    states: ClassVar[int] = 2

    @config_class
    class Options(OptimizerOptions):
        """Options of LAMB; the paper trains BERT with rates of 5e-4 (batch 512) to 5e-3 (batch 32,768)."""

        betas: tuple[Annotated[float, Field(ge=0.0, lt=1.0)], Annotated[float, Field(ge=0.0, lt=1.0)]] = (0.9, 0.999)
        """Decay of the first and second moment, 0 ≤ beta < 1."""
        eps: float = Field(default=1e-6, gt=0.0)
        """Added to the root of the second moment, > 0."""

    options: Options

    def build(self, groups: Sequence[dict[str, Any]]) -> torch.optim.Optimizer:
        """Return the optimizer; each group keeps its weight decay."""
        betas, eps = self.options.betas, self.options.eps
        return _Lamb([{**group, "betas": betas, "eps": eps} for group in groups], self.options.learning_rate)


class _Lamb(WholeParameterOptimizer):
    """LAMB over flats; ranks exchange two numbers per parameter."""

    def update(self, group: dict[str, Any], flat: Tensor, gradient: Tensor) -> None:
        """Update moments element by element, and weights by the ratio of their parameter."""
        # Adam moments and direction
        step, state = begin_update(self, flat, ("exp_avg", "exp_avg_sq"))
        first, second = group["betas"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(gradient, 1 - first)
        square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        direction = (mean / (1 - first**step)).div_((square / (1 - second**step)).sqrt_().add_(group["eps"]))
        if not group["weight_decay"]:
            flat.sub_(direction, alpha=group["lr"])
            return
        # trust ratio of each parameter, 1 where a norm is 0
        direction.add_(flat, alpha=group["weight_decay"])
        norms = self.layout.sums(flat, [flat.square(), direction.square()])
        for segment in self.layout.own(flat):
            weights, updates = norms[segment.name].sqrt()
            ratio = torch.where((weights > 0) & (updates > 0), weights / updates, 1.0)
            segment.of(flat).sub_(segment.of(direction).mul_((group["lr"] * ratio).float()))
