"""An optimizer of a user that needs entire parameters, and declares nothing of that."""

import torch

from clozeline.train.optim.optimizers import OptimizerBuilder, OptimizerOptions

NAME = f"{__name__}:Own"


class Own(OptimizerBuilder):
    """Steps as long as the weight, in a direction that depends on products of its rows."""

    states = 1
    keys = frozenset({"momentum"})
    Options = OptimizerOptions

    def build(self, groups):
        return _Optimizer(list(groups), {"lr": self.options.learning_rate})


class _Optimizer(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self.update(weight, weight.grad, self.state[weight], group["lr"])

    def update(self, weight, gradient, state, rate):
        rows = gradient.view(len(gradient), -1)
        state["step"] = state.get("step", 0) + 1
        state["momentum"] = state.get("momentum", 0) + gradient
        state["products"] = state.get("products", torch.eye(len(rows))) + rows @ rows.T
        direction = (state["products"] / state["step"] @ rows).view(weight.shape)
        direction = direction / direction.norm().clamp(min=1e-9) + state["momentum"].sign()
        weight -= rate * weight.norm() * direction
