"""LAMB: Adam whose steps are as long as the parameters, for large batches (arXiv 1904.00962)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from clozeline.train.optim.optimizers import OptimizerBuilder
from clozeline.train.optim.optimizers._optimizer import WholeParameterOptimizer, square_sums
from clozeline.train.optim.optimizers.adamw import AdamW


class Lamb(OptimizerBuilder):
    """Adam whose update of each decaying parameter gets the norm of that parameter.

    The decay is part of the update. Other parameters are updated as by Adam, as in apex and
    LTG-BERT.
    """

    states = 2
    keys = frozenset({"exp_avg", "exp_avg_sq"})
    Options = AdamW.Options
    options: AdamW.Options

    def build(self, groups: Sequence[dict[str, object]]) -> torch.optim.Optimizer:
        return _Lamb(groups, self.options)


class _Lamb(WholeParameterOptimizer):
    """LAMB over flats."""

    def __init__(self, groups: Sequence[dict[str, object]], options: AdamW.Options) -> None:
        super().__init__(groups, options.peak_rate)
        self.options = options

    def update(self, group: dict[str, Any], flats: list[Tensor], gradients: list[Tensor]) -> None:
        # the update of Adam, without bias
        steps, means, squares = self.states_of(flats, "exp_avg", "exp_avg_sq")
        torch._foreach_add_(steps, 1)
        first, second = self.options.betas
        torch._foreach_lerp_(means, gradients, 1.0 - first)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, gradients, gradients, 1.0 - second)
        step = float(steps[0])
        roots = torch._foreach_div(squares, 1.0 - second**step)
        torch._foreach_sqrt_(roots)
        torch._foreach_add_(roots, self.options.eps)
        updates = torch._foreach_div(means, 1.0 - first**step)
        torch._foreach_div_(updates, roots)
        if not group["weight_decay"]:
            torch._foreach_sub_(flats, updates, alpha=group["lr"])
            return

        # norms of entire parameters and updates
        torch._foreach_add_(updates, flats, alpha=group["weight_decay"])
        weights = self.layout.pieces(flats, flats)
        pieces = self.layout.pieces(flats, updates)
        sums = [square_sums(parts, flats[0].device) for parts in (weights, pieces)]
        lengths, strengths = (
            self.layout.whole_sums(flats, torch.stack(sums, dim=1)).sqrt_().unbind(1)
        )
        ratios = (lengths / strengths).where((lengths > 0) & (strengths > 0), 1.0)
        if pieces:
            torch._foreach_mul_(pieces, ratios.float().unbind())
            steps = [part.view_as(weight) for part, weight in zip(pieces, weights, strict=True)]
            torch._foreach_sub_(weights, steps, alpha=group["lr"])
