"""StableAdamW: AdamW with the learning rate lowered per parameter if its second moment lags (arXiv 2304.13013)."""

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
    update_moments,
)


class StableAdamW(WholeParameterBuilder):
    """Divides the learning rate of a parameter by max(1, RMS(gradient / root of second moment)).

    ModernBERT's optimizer. Moments are debiased by their decay, as in the paper's algorithm 2: step t decays by
    (β - βᵗ) / (1 - βᵗ).
    """

    statistics: ClassVar[Literal["parameter"]] = "parameter"
    states: ClassVar[int] = 2

    @config_class
    class Options(OptimizerOptions):
        """Options of StableAdamW; the paper takes betas 0.9 and 0.99."""

        betas: tuple[Annotated[float, Field(ge=0.0, lt=1.0)], Annotated[float, Field(ge=0.0, lt=1.0)]] = (0.9, 0.99)
        """Decay of the first and second moment, 0 ≤ beta < 1."""
        eps: float = Field(default=1e-6, ge=1e-18)
        """Added to the root of the second moment, and its minimum in the RMS, ≥ 1e-18."""

    options: Options

    def build(self, groups: Sequence[dict[str, Any]]) -> torch.optim.Optimizer:
        """Return the optimizer; each group keeps its weight decay."""
        betas, eps = self.options.betas, self.options.eps
        return _StableAdamW([{**group, "betas": betas, "eps": eps} for group in groups], self.options.learning_rate)


class _StableAdamW(WholeParameterOptimizer):
    """StableAdamW over flats; ranks exchange one number per parameter."""

    def update(self, group: dict[str, Any], flats: list[Tensor], gradients: list[Tensor]) -> None:
        """Update moments element by element, and weights by the rate of their parameter."""
        # moments, debiased by their decay
        step, (means, squares) = self.begin(flats, "exp_avg", "exp_avg_sq")
        first, second = ((beta**step - beta) / (beta**step - 1) for beta in group["betas"])
        update_moments(means, squares, gradients, (first, second))
        roots = torch._foreach_sqrt(squares)
        # rate of each parameter
        ratios = torch._foreach_div(gradients, torch._foreach_clamp_min(roots, group["eps"]))
        rates = group["lr"] / self.roots_of_means(flats, ratios)[:, 0].clamp_(min=1.0)
        # step, with decay
        torch._foreach_add_(roots, group["eps"])
        directions = torch._foreach_div(means, roots)
        if group["weight_decay"]:
            torch._foreach_add_(directions, flats, alpha=group["weight_decay"])
        self.descend(flats, directions, rates)
