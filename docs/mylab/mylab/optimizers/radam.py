"""Rectified Adam."""

import torch

from clozeline.train.optim.optimizers import OptimizerBuilder, OptimizerOptions


class RAdam(OptimizerBuilder):
    """Rectified Adam (arXiv 1908.03265) with decoupled weight decay."""

    statistics = "element"  # no norm or mean of a weight, so that it may be cut anywhere
    keys = frozenset({"exp_avg", "exp_avg_sq"})
    bit_exact = False
    states = 2
    Options = OptimizerOptions

    def build(self, groups):
        return torch.optim.RAdam(
            list(groups), lr=self.options.learning_rate, decoupled_weight_decay=True
        )
