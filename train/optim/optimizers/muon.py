"""Muon: the momentum of each matrix is made orthogonal by a Newton-Schulz iteration (Jordan 2024; arXiv 2502.16982)."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal

import torch
from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import config_class
from clozeline.train.optim.optimizers import OptimizerOptions
from clozeline.train.optim.optimizers._matrices import map_matrices
from clozeline.train.optim.optimizers._whole_parameters import (
    WholeParameterBuilder,
    WholeParameterOptimizer,
    begin_update,
)

_COEFFICIENTS: Final = (3.4445, -4.7750, 2.0315)
_SMALLEST: Final = 1e-7
"""Minimum norm by which a matrix is divided."""


class Muon(WholeParameterBuilder):
    """Muon for the matrices of layers; AdamW for tables, heads, biases and norms.

    Momenta are partitioned by ZeRO; a split matrix goes to one rank for its iteration, in the dtype of the iteration.
    """

    statistics: ClassVar[Literal["matrix"]] = "matrix"
    states: ClassVar[int] = 2
    """for AdamW; matrices of layers have 1"""
    matrices_apart: ClassVar[bool] = True

    @config_class
    class Options(OptimizerOptions):
        """Options of Muon; with `adjust: match_rms_adamw`, use AdamW's learning rate and decay."""

        momentum: float = Field(default=0.95, ge=0.0, lt=1.0)
        """Decay of the matrices' momentum, 0 ≤ momentum < 1."""
        nesterov: bool = True
        """Nesterov momentum."""
        iterations: int = Field(default=5, ge=1, lt=100)
        """Steps of the Newton-Schulz iteration, 1..99."""
        iterate_in: Literal["bf16", "fp32"] | None = None
        """Type of the iteration; null: bf16, as published. CPUs without bf16 instructions are faster in fp32, 18 to 40
        times on the one we measured."""
        adjust: Literal["match_rms_adamw", "original"] = "match_rms_adamw"
        """Factor of the learning rate for a matrix [A, B]: 0.2 sqrt(max(A, B)), as long as AdamW's steps (arXiv
        2502.16982), or sqrt(max(1, A / B))."""
        adam_rate: float = Field(default=1.0, gt=0.0)
        """Learning rate of AdamW's parameters relative to the matrices, > 0."""
        betas: tuple[Annotated[float, Field(ge=0.0, lt=1.0)], Annotated[float, Field(ge=0.0, lt=1.0)]] = (0.9, 0.95)
        """AdamW's decay of the first and second moment, 0 ≤ beta < 1."""
        eps: float = Field(default=1e-8, gt=0.0)
        """Added by AdamW to the root of the second moment, > 0."""

    options: Options

    def build(self, groups: Sequence[dict[str, Any]]) -> torch.optim.Optimizer:
        """Return the optimizer: Muon in groups named `matrix`, AdamW in the others."""
        return _Muon(groups, self.options)


class _Muon(WholeParameterOptimizer):
    """Muon and AdamW over flats."""

    def __init__(self, groups: Sequence[dict[str, Any]], options: Muon.Options) -> None:
        super().__init__(groups, options.learning_rate)
        self.options = options

    def update(self, group: dict[str, Any], flat: Tensor, gradient: Tensor) -> None:
        options = self.options
        if group["name"].partition(".")[0] != "matrix":
            # AdamW
            step, state = begin_update(self, flat, ("exp_avg", "exp_avg_sq"))
            (first, second), rate = options.betas, group["lr"] * options.adam_rate
            mean, square = state["exp_avg"], state["exp_avg_sq"]
            mean.lerp_(gradient, 1 - first)
            square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
            root = square.sqrt().div_(math.sqrt(1 - second**step)).add_(options.eps)
            flat.mul_(1 - rate * group["weight_decay"]).addcdiv_(mean, root, value=-rate / (1 - first**step))
            return
        # momentum
        state = self.state[flat]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(flat, requires_grad=False)
        momentum: Tensor = state["momentum_buffer"]
        momentum.lerp_(gradient, 1 - options.momentum)
        pushed = gradient.lerp(momentum, options.momentum) if options.nesterov else momentum
        # orthogonal direction, scaled by the shape of each matrix
        started = pushed.float() if options.iterate_in == "fp32" else pushed.bfloat16()
        direction = map_matrices(self.layout, flat, started, partial(orthogonalize, iterations=options.iterations))
        for segment in self.layout.own(flat):
            rows, columns = segment.shape
            long = 0.2 * math.sqrt(max(rows, columns))
            factor = long if options.adjust == "match_rms_adamw" else math.sqrt(max(1, rows / columns))
            weight = segment.of(flat).mul_(1 - group["lr"] * group["weight_decay"])
            weight.add_(segment.of(direction), alpha=-group["lr"] * factor)


def orthogonalize(matrix: Tensor, iterations: int) -> Tensor:
    """Return approximately U Vᵀ of a matrix U S Vᵀ: singular values 0.7 to 1.2, the same directions."""
    a, b, c = _COEFFICIENTS
    high = matrix.size(0) > matrix.size(1)
    x = matrix.T if high else matrix
    x = x / x.norm().clamp(min=_SMALLEST)
    for _ in range(iterations):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if high else x
