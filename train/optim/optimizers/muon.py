"""Muon: orthogonalize the momentum of each matrix (Jordan 2024; arXiv 2502.16982)."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.optim.adamw import adamw

from clozeline.configuration.config import config_class
from clozeline.train.optim.optimizers import OptimizerBuilder, OptimizerOptions
from clozeline.train.optim.optimizers._optimizer import (
    WholeParameterOptimizer,
    map_matrices,
    square_sums,
)

_COEFFICIENTS: Final = (3.4445, -4.7750, 2.0315)
_ITERATIONS: Final = 5
_MIN_DIVISOR: Final = 1e-7
"""Minimum norm by which a matrix is divided."""
_BETAS: Final = (0.9, 0.95)
"""AdamW's decay of the first and second moment."""


class Muon(OptimizerBuilder):
    """Muon for the matrices of layers; AdamW for tables, heads, biases and norms.

    Momenta are partitioned by ZeRO; a split matrix goes to one rank for its iteration, in the dtype
    of the iteration.
    """

    states = 2
    """for AdamW; matrices of layers have 1"""
    keys = frozenset({"exp_avg", "exp_avg_sq", "momentum_buffer"})
    separate_matrices = True

    @config_class
    class Options(OptimizerOptions):
        """Options of Muon; with `adjust: match_rms_adamw`, use AdamW's learning rate and decay."""

        momentum: float = Field(default=0.95, ge=0.0, lt=1.0)
        """Decay of the matrices' momentum, 0 ≤ momentum < 1."""
        iterate_in: Literal["bf16", "fp32"] | None = None
        """Type of the iteration; null: bf16, as published. CPUs without bf16 instructions are
        faster in fp32, 18 to 40 times on the one we measured."""
        adjust: Literal["match_rms_adamw", "original"] = "match_rms_adamw"
        """Factor of the learning rate for a matrix [A, B]: 0.2 sqrt(max(A, B)), as long as AdamW's
        steps (arXiv 2502.16982), or sqrt(max(1, A / B))."""
        adam_rate: float = Field(default=1.0, gt=0.0)
        """Learning rate of AdamW's parameters relative to the matrices, > 0."""
        eps: float = Field(default=1e-8, gt=0.0)
        """Added by AdamW to the root of the second moment, > 0."""

    options: Options

    def build(self, groups: Sequence[dict[str, object]]) -> torch.optim.Optimizer:
        return _Muon(groups, self.options)


class _Muon(WholeParameterOptimizer):
    """Muon and AdamW over flats."""

    def __init__(self, groups: Sequence[dict[str, object]], options: Muon.Options) -> None:
        super().__init__(groups, options.peak_rate)
        self.options = options

    def update(self, group: dict[str, Any], flats: list[Tensor], gradients: list[Tensor]) -> None:
        # AdamW outside of layers
        options = self.options

        if group["name"].partition(".")[0] != "matrix":
            steps, means, squares = self.states_of(flats, "exp_avg", "exp_avg_sq")
            settings = {
                "weight_decay": group["weight_decay"],
                "eps": options.eps,
                "amsgrad": False,
                "maximize": False,
            }
            rates = {"lr": group["lr"] * options.adam_rate, "beta1": _BETAS[0], "beta2": _BETAS[1]}
            adamw(flats, gradients, means, squares, [], steps, foreach=True, **rates, **settings)
            return

        # momentum, Nesterov's
        for flat in flats:
            if not self.state[flat]:
                self.state[flat]["momentum_buffer"] = torch.zeros_like(flat, requires_grad=False)

        momenta: list[Tensor] = [self.state[flat]["momentum_buffer"] for flat in flats]
        torch._foreach_lerp_(momenta, gradients, 1 - options.momentum)
        pushed = torch._foreach_lerp(gradients, momenta, options.momentum)

        # orthogonal directions
        dtype = torch.float32 if options.iterate_in == "fp32" else torch.bfloat16
        directions = map_matrices(self.layout, flats, _convert(pushed, dtype), orthogonalize)

        # steps, scaled by the shape of each matrix
        torch._foreach_mul_(flats, 1 - group["lr"] * group["weight_decay"])
        by_factor: dict[float, tuple[list[Tensor], list[Tensor]]] = defaultdict(lambda: ([], []))
        weights = self.layout.pieces(flats, flats)
        for segment, weight, direction in zip(
            self.layout.local_segments(*flats), weights, directions, strict=True
        ):
            rows, columns = segment.shape
            long = 0.2 * math.sqrt(max(rows, columns))
            factor = (
                long if options.adjust == "match_rms_adamw" else math.sqrt(max(1, rows / columns))
            )
            by_factor[factor][0].append(weight)
            by_factor[factor][1].append(direction)

        for factor, (scaled, of_scaled) in by_factor.items():
            wide = _convert(of_scaled, torch.float32)
            steps = [step.view_as(weight) for step, weight in zip(wide, scaled, strict=True)]
            torch._foreach_add_(scaled, steps, alpha=-group["lr"] * factor)


def _convert(tensors: Sequence[Tensor], dtype: torch.dtype) -> Sequence[Tensor]:
    """Return tensors as vectors of another type, by one conversion."""
    joined = (
        torch.cat([tensor.view(-1) for tensor in tensors])
        if len(tensors) > 1
        else tensors[0].view(-1)
    )
    return torch.split(joined.to(dtype), [tensor.numel() for tensor in tensors])


def orthogonalize(matrices: Tensor) -> Tensor:
    """Return approximately U Vᵀ of matrices U S Vᵀ [matrices, rows, columns].

    A Newton-Schulz iteration gives singular values from 0.7 to 1.2.
    """
    a, b, c = _COEFFICIENTS
    high = matrices.size(1) > matrices.size(2)
    x = matrices.mT if high else matrices
    norms = (
        square_sums(matrices.unbind(), matrices.device).sqrt_().to(x.dtype).clamp_(min=_MIN_DIVISOR)
    )
    x = x / norms[:, None, None]
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT.contiguous() if high else x
