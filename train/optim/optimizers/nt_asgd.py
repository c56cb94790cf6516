"""NT-ASGD: average the weights once the held-out loss stops falling (arXiv 1708.02182)."""

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import ClassVar

import torch
from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.model.configuration.capabilities import (
    AVERAGE,
    STATES_ON_DEVICE,
    UNDOABLE_STEPS,
)
from clozeline.train.optim.optimizers import OptimizerBuilder, OptimizerOptions


class NTASGD(OptimizerBuilder):
    """SGD without momentum that evaluates and exports the mean of its weights since step T.

    T is the first evaluation at which `has_stopped_falling` holds. Checkpoints store the losses: a
    resumed run averages from the same step.
    """

    statistics = "element"
    states = 1
    keys = frozenset({AVERAGE})
    needs: ClassVar = {STATES_ON_DEVICE}
    prevents: ClassVar = {UNDOABLE_STEPS}
    needs_heldout_losses = True

    @config_class
    class Options(OptimizerOptions):
        """Options of averaged SGD; the paper's defaults, for gradient_clipping 0.25."""

        learning_rate: float = Field(
            default=30.0, gt=0.0, description="peak rate, > 0; the schedule multiplies it"
        )
        weight_decay: float = Field(
            default=1.2e-6, ge=0.0, description="decay of matrices, ≥ 0; biases and norms have none"
        )
        patience: int = Field(default=5, ge=1)
        """latest evaluations to ignore in the best loss so far, ≥ 1: the paper's n"""

    options: Options

    def build(self, groups: Sequence[dict[str, object]]) -> torch.optim.Optimizer:
        return _AveragedSGD(
            [{**group, "averaging": False} for group in groups], lr=self.options.learning_rate
        )

    def observe_eval_losses(
        self, optimizer: torch.optim.Optimizer, losses: Sequence[float]
    ) -> bool:
        begins = (
            has_stopped_falling(losses, self.options.patience)
            and not optimizer.param_groups[0]["averaging"]
        )
        for group in optimizer.param_groups:
            group["averaging"] = group["averaging"] or begins
        return begins


def has_stopped_falling(losses: Sequence[float], patience: int) -> bool:
    """Return whether a loss is above the best loss more than `patience` evaluations earlier.

    This is the rule of the authors' code. A loss that is not finite counts as infinite.

    Example (patience 2):
        5 4 3 3.5 3.2       false: 3.2 is compared with 5 and 4
        5 4 3 3.5 3.2 3.1   true: 3.1 is compared with 5, 4 and 3
    """
    finite = [loss if math.isfinite(loss) else math.inf for loss in losses]
    return any(
        loss > best
        for loss, best in zip(finite[patience + 1 :], accumulate(finite, min), strict=False)
    )


class _AveragedSGD(torch.optim.SGD):
    """SGD with a running mean of the weights in groups whose `averaging` is true."""

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Do one step, then update the means."""
        averaged = [p for group in self.param_groups if group["averaging"] for p in group["params"]]
        for parameter in averaged:
            if not self.state[parameter]:
                self.state[parameter] = {
                    AVERAGE: parameter.detach().clone(),
                    "averaged": torch.tensor(1.0),
                }

        loss: float | None = super().step(closure)

        for parameter in averaged:
            state = self.state[parameter]
            state["averaged"] += 1
            state[AVERAGE].lerp_(parameter.detach(), 1 / float(state["averaged"]))

        return loss
