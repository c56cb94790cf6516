"""LAMB."""

import torch

from clozeline.train.optim.optimizers import OptimizerBuilder, OptimizerOptions


class Lamb(OptimizerBuilder):
    """LAMB (arXiv 1904.00962): Adam, with steps as long as the norm of each weight says."""

    keys = frozenset({"exp_avg", "exp_avg_sq"})
    states = 2
    Options = OptimizerOptions

    def build(self, groups):
        return _Lamb(list(groups), {"lr": self.options.learning_rate})


class _Lamb(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self.update(weight, weight.grad, group)

    def update(self, weight, gradient, group):
        state = self.state[weight]
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(weight)
            state["exp_avg_sq"] = torch.zeros_like(weight)
        state["step"] += 1

        # Adam's direction
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(gradient, 0.1)
        square.lerp_(gradient.square(), 0.001)
        rate = 1 - 0.999 ** state["step"]
        direction = mean / (1 - 0.9 ** state["step"]) / ((square / rate).sqrt() + 1e-6)
        direction += group["weight_decay"] * weight

        # as long as the weight
        norms = weight.norm(), direction.norm()
        ratio = norms[0] / norms[1] if all(norms) else 1.0
        weight -= group["lr"] * ratio * direction
