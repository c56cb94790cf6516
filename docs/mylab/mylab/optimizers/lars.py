"""LARS."""

import torch

from clozeline.train.optim.optimizers import OptimizerBuilder, OptimizerOptions


class Lars(OptimizerBuilder):
    """LARS (arXiv 1708.03888): momentum, with steps as long as the norm of each weight says."""

    keys = frozenset({"momentum"})
    states = 1
    Options = OptimizerOptions

    def build(self, groups):
        return _Lars(list(groups), {"lr": self.options.learning_rate})


class _Lars(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self.update(weight, weight.grad, group)

    def update(self, weight, gradient, group):
        state = self.state[weight]
        if not state:
            state["momentum"] = torch.zeros_like(weight)

        # as long as the weight
        direction = gradient + group["weight_decay"] * weight
        norms = weight.norm(), direction.norm()
        ratio = norms[0] / norms[1] if all(norms) else 1.0
        state["momentum"].mul_(0.9).add_(direction, alpha=group["lr"] * float(ratio))
        weight -= state["momentum"]
