"""LAMB: Adam whose steps are as long as the parameters, for large batches (arXiv 1904.00962)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from clozeline.train.optim.optimizers import OptimizerBuilder
from clozeline.train.optim.optimizers._optimizer import WholeParameterAdam, square_sums
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
        return _Lamb(groups, self.options.peak_rate, self.options.betas, self.options.eps)


class _Lamb(WholeParameterAdam):
    """LAMB over flats."""

    def update(self, group: dict[str, Any], flats: list[Tensor], gradients: list[Tensor]) -> None:
        updates = self.adam_updates(flats, gradients)
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
        self.subtract(weights, pieces, ratios, group["lr"])
