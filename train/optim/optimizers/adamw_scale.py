"""AdamW whose rate is relative to the size of a parameter, as Adafactor's (nanoT5)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from clozeline.train.optim.optimizers import OptimizerBuilder
from clozeline.train.optim.optimizers._optimizer import WholeParameterAdam, square_sums
from clozeline.train.optim.optimizers.adamw import AdamW


class AdamWScale(OptimizerBuilder):
    """Adam whose update is multiplied by the root mean square of the parameter, at least 1e-3.

    The decay is that of AdamW.
    """

    states = 2
    keys = frozenset({"exp_avg", "exp_avg_sq"})
    Options = AdamW.Options
    options: AdamW.Options

    def build(self, groups: Sequence[dict[str, object]]) -> torch.optim.Optimizer:
        return _AdamWScale(groups, self.options.peak_rate, self.options.betas, self.options.eps)


class _AdamWScale(WholeParameterAdam):
    """The same over flats."""

    def update(self, group: dict[str, Any], flats: list[Tensor], gradients: list[Tensor]) -> None:
        pieces = self.layout.pieces(flats, self.adam_updates(flats, gradients))
        weights = self.layout.pieces(flats, flats)

        # root mean squares of entire parameters
        sums = square_sums(weights, flats[0].device)[:, None]
        means = self.layout.whole_sums(flats, sums) / self.layout.whole_sizes(flats)[:, None]
        sizes = means[:, 0].sqrt().clamp(min=1e-3)

        # update and decay
        self.subtract(weights, pieces, sizes, group["lr"])
        if group["weight_decay"]:
            torch._foreach_mul_(flats, 1 - group["lr"] * group["weight_decay"])
