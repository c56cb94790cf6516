"""The contract of optimizers: each updates a small linear map."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Final, TypeAlias

import torch
from torch import Tensor, nn

from clozeline.tools.start.contracts import Entry, require
from clozeline.train.optim.optimizers import OptimizerBuilder
from clozeline.train.optim.optimizers._optimizer import WholeParameterOptimizer
from clozeline.train.optim.weights.parameter_groups import parameter_groups
from clozeline.train.registries import OPTIMIZERS


class _Trained:
    """A linear map with its optimizer."""

    def __init__(self, entry: Entry, decay: float = 0.1) -> None:
        self.layer = nn.Linear(3, 2)
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor([[0.5, -0.3, 0.2], [-0.1, 0.4, 0.6]]))
            self.layer.bias.copy_(torch.tensor([0.1, -0.2]))
        self.builder: OptimizerBuilder = OPTIMIZERS.resolve(entry).build()
        self.optimizer = self.builder.create(parameter_groups(self.layer, decay))

    def step(self, rate: float) -> Tensor:
        """Update once by a learning rate, written into the groups as the engine does.

        Return what moved.
        """
        before = self.values()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        self.layer(torch.tensor([[1.0, -0.5, 2.0]])).square().sum().backward()
        self.optimizer.step()
        return self.values() - before

    def values(self) -> Tensor:
        """Return all weights."""
        return nn.utils.parameters_to_vector(self.layer.parameters()).detach().clone()


Case: TypeAlias = Callable[..., _Trained]


def prepare(entry: Entry) -> Case:
    """Return what builds the map and the optimizer."""
    return partial(_Trained, entry)


def check_declarations(case: Case) -> None:
    """It declares the scope of its statistics, and keeps the names of groups."""
    trained = case()
    scope = trained.builder.statistics
    require(
        scope in ("element", "parameter"),
        f"statistics: expected element or parameter, got {scope!r}",
    )
    names = [group.get("name") for group in trained.optimizer.param_groups]
    require(
        names == ["decay", "no_decay"],
        f"expected the groups decay and no_decay, got {names}: pass on `groups`",
    )


def check_learning_rate(case: Case) -> None:
    """A step is as long as the learning rate of its group says; without gradients nothing moves."""
    moved = [case().step(rate) for rate in (0.0, 1e-3, 2e-3)]
    require(
        not moved[0].any(),
        "expected a rate of 0 to change nothing; read `group['lr']`, which the engine writes",
    )
    require(moved[1].any(), "expected a step to change the weights, got the same ones")
    twice = torch.allclose(moved[2], 2 * moved[1], rtol=0.02, atol=1e-6)
    require(
        twice,
        f"expected twice the step by twice the rate, got {moved[2].norm() / moved[1].norm():.2f} "
        "times",
    )

    idle = case()
    idle.optimizer.step()
    require(
        idle.values().equal(case().values()),
        "expected weights without a gradient to stay, got others",
    )
    require(
        not any(idle.optimizer.state.values()),
        "expected no state without a gradient, which no other rank has",
    )


def check_states(case: Case) -> None:
    """An element has as many states as declared, and a resumed optimizer repeats its bits."""
    trained = case()
    resumed = case()
    for linear in (trained, resumed):
        # averages start at a rising held-out loss
        linear.builder.observe_eval_losses(linear.optimizer, [0.0, *[1.0] * 9])

    trained.step(1e-3)
    size = trained.layer.weight.numel()
    declared = trained.builder.states
    optimizer = trained.optimizer
    whole = optimizer.whole if isinstance(optimizer, WholeParameterOptimizer) else {}
    states = optimizer.state[trained.layer.weight] or {
        path.partition("/")[0]: value
        for path, value in whole.items()
        if path.endswith("/000000") and value.numel() == size
    }
    sizes = {name: value.numel() for name, value in states.items() if value.numel() > 1}

    require(
        sizes.keys() <= set(trained.builder.keys),
        f"keys: expected the names of its states, {sorted(sizes)}",
    )
    require(
        [*sizes.values()] == [size] * declared,
        f"states: expected {declared} of {size} elements, got the sizes {sizes}",
    )
    resumed.layer.load_state_dict(trained.layer.state_dict())
    resumed.optimizer.load_state_dict(deepcopy(optimizer.state_dict()))
    if isinstance(resumed.optimizer, WholeParameterOptimizer):
        resumed.optimizer.whole = deepcopy(whole)  # checkpoints hold it, too
    same = trained.step(1e-3).equal(resumed.step(1e-3))
    require(
        same,
        "expected the same step after a resume, got another one: keep in `state` what a step reads",
    )


def check_scope(case: Case) -> None:
    """Weights in one flat vector, as ZeRO joins them, move as they do apart."""
    trained = case(decay=0.0)
    if trained.builder.statistics != "element":
        return  # it never gets such a vector

    flat = trained.values()
    optimizer = trained.builder.build([{"name": "decay", "weight_decay": 0.0, "params": [flat]}])
    for _ in range(3):
        trained.step(1e-2)
        optimizer.param_groups[0]["lr"] = 1e-2
        gradients = [weight.grad for weight in trained.layer.parameters()]
        flat.grad = nn.utils.parameters_to_vector(gradients)  # type: ignore[arg-type]
        optimizer.step()

    wrong = float((flat - trained.values()).abs().max())
    require(
        wrong < 1e-6,
        f"statistics: element is not true: after three steps in one vector, a weight is off by "
        f"{wrong:.1g}. If the update uses a norm, a mean or the shape of a weight, remove "
        "`statistics`: each weight is then passed entire",
    )


CHECKS: Final = (check_declarations, check_learning_rate, check_states, check_scope)
