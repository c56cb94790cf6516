"""Adafactor: second moments of a matrix from its rows and columns (arXiv 1804.04235)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from clozeline.configuration.config import config_class
from clozeline.train.optim.optimizers import OptimizerBuilder, OptimizerOptions
from clozeline.train.optim.optimizers._optimizer import (
    WholeParameterOptimizer,
    square_sums,
)
from clozeline.train.optim.weights.flat_buffers import Segment

_BETA2_DECAY: Final = -0.8
"""Step t decays second moments by 1 - t ** this."""
_MIN_PARAMETER_RMS: Final = 1e-3
"""Minimum root mean square of a parameter."""


class Adafactor(OptimizerBuilder):
    """T5's optimizer, as in transformers: relative rates, clipped updates, no momentum.

    A vector has a second moment per element; a matrix two vectors of moments, stored on every rank.
    """

    states = 0
    """for matrices; vectors have 1"""
    keys = frozenset({"variance"})

    @config_class
    class Options(OptimizerOptions):
        """Options of Adafactor; the rate is relative to the root mean square of a parameter."""

        learning_rate: float = Field(
            default=1e-2,
            gt=0.0,
            description="peak rate, > 0; at step t at most 1 / sqrt(t); the schedule multiplies it",
        )
        weight_decay: float = Field(default=0.0, ge=0.0)
        """decoupled decay of matrices, ≥ 0; biases and norms have none"""
        eps: float = Field(default=1e-15, ge=1e-15)
        """Its square is added to the squares of gradients, ≥ 1e-15 (T5: squares get 1e-30). torch's
        Adafactor has 1.2e-7, which slows rows with small gradients down."""

    options: Options

    def build(self, groups: Sequence[dict[str, object]]) -> torch.optim.Optimizer:
        return _Adafactor(groups, self.options)


class _Adafactor(WholeParameterOptimizer):
    """Adafactor over flats; `whole` holds the moments `row/NAME` and `col/NAME`."""

    def __init__(self, groups: Sequence[dict[str, object]], options: Adafactor.Options) -> None:
        super().__init__(groups, options.learning_rate)
        self.options = options

    def update(self, group: dict[str, Any], flats: list[Tensor], gradients: list[Tensor]) -> None:
        if any(len(shape) > 1 for shape in self.layout.shapes(*flats).values()):
            self._update_matrices(group, flats, gradients)
            return

        # vectors: a moving mean of squares for each element
        steps, variances = self.states_of(flats, "variance")
        step = _count(steps)
        squares = torch._foreach_mul(gradients, gradients)
        torch._foreach_add_(squares, self.options.eps**2)
        torch._foreach_lerp_(variances, squares, step**_BETA2_DECAY)
        roots = torch._foreach_rsqrt(variances)
        torch._foreach_mul_(roots, gradients)
        self._descend(group, step, flats, self.layout.pieces(flats, roots))

    def _descend(
        self, group: dict[str, Any], step: float, flats: list[Tensor], directions: list[Tensor]
    ) -> None:
        """Subtract the direction of each segment, times the rate of its parameter."""
        # root mean squares of entire parameters and directions decide the rates
        weights = self.layout.pieces(flats, flats)
        squares = torch.stack(
            [square_sums(pieces, flats[0].device) for pieces in (weights, directions)], dim=1
        )
        means = self.layout.whole_sums(flats, squares) / self.layout.whole_sizes(flats)[:, None]
        sizes, strengths = means.sqrt_().unbind(1)
        rates = (
            sizes.clamp(min=_MIN_PARAMETER_RMS)
            * min(group["lr"], step**-0.5)
            / strengths.clamp(min=1.0)
        )

        # decay and update
        if group["weight_decay"]:
            torch._foreach_mul_(flats, 1 - group["lr"] * group["weight_decay"])
        self.subtract(weights, directions, rates)

    def _update_matrices(
        self, group: dict[str, object], flats: list[Tensor], gradients: list[Tensor]
    ) -> None:
        """Update matrices with two exchanges for all of them."""
        # slices of this rank, padded to entire rows
        (steps,) = self.states_of(flats)
        step = _count(steps)
        rows_of = [
            _Rows(segment, flats[0].device) for segment in self.layout.local_segments(*flats)
        ]
        pieces = self.layout.pieces(flats, gradients)
        slices = [rows.pad(piece) for rows, piece in zip(rows_of, pieces, strict=True)]

        # sums over entire rows and columns of squared gradients, on all ranks
        shapes = self.layout.shapes(*flats)
        lengths = [length for shape in shapes.values() for length in _moments_of(shape)]
        sums = torch.zeros(sum(lengths), dtype=torch.float64, device=flats[0].device)
        parts = torch.split(sums, lengths)
        sums_of = dict(zip(shapes, zip(parts[::2], parts[1::2], strict=True), strict=True))
        for rows, part in zip(rows_of, slices, strict=True):
            rows.add_sums(part.square(), *sums_of[rows.segment.name])
        self.layout.total(sums)

        # moving means of these sums
        moving_means: list[Tensor] = []
        means: list[Tensor] = []

        for name, shape in shapes.items():
            sizes = (shape[-1], shape[-2])
            for key, of_parameter, size in zip(("row", "col"), sums_of[name], sizes, strict=True):
                means.append((of_parameter / size + self.options.eps**2).float())
                zeros = torch.zeros_like(means[-1])
                moving_means.append(self.whole.setdefault(f"{key}/{name}", zeros))

        torch._foreach_lerp_(moving_means, means, step**_BETA2_DECAY)

        # directions: gradients divided by the roots of second moments
        for rows, part in zip(rows_of, slices, strict=True):
            name = rows.segment.name
            rows.divide(part, self.whole[f"row/{name}"], self.whole[f"col/{name}"])

        directions = [rows.cut(part) for rows, part in zip(rows_of, slices, strict=True)]
        self._descend(group, step, flats, directions)


def _count(steps: list[Tensor]) -> float:
    """Count an update; return its index from 1."""
    torch._foreach_add_(steps, 1)
    return float(steps[0])


def _moments_of(shape: Sequence[int]) -> tuple[int, int]:
    """Return the numbers of row and column moments of a stack of matrices [..., rows, columns]."""
    return prod(shape[:-1]), prod(shape[:-2]) * shape[-1]


class _Rows:
    """The rows that a segment of a parameter touches, zeros where it cuts them: [rows, columns].

    The rows of stacked matrices count as those of one.
    """

    def __init__(self, segment: Segment, device: torch.device) -> None:
        self.segment = segment
        self.columns = segment.shape[-1]
        self.first, self.lead = divmod(segment.start, self.columns)
        self.last = -(-(segment.start + segment.count) // self.columns)
        self.matrix_of_row = torch.arange(self.first, self.last, device=device) // segment.shape[-2]

    def pad(self, piece: Tensor) -> Tensor:
        trail = (self.last - self.first) * self.columns - self.lead - self.segment.count
        return F.pad(piece.reshape(-1), (self.lead, trail)).view(-1, self.columns)

    def cut(self, rows: Tensor) -> Tensor:
        """Return the segment as a vector."""
        return rows.view(-1).narrow(0, self.lead, self.segment.count)

    def add_sums(self, squares: Tensor, of_rows: Tensor, of_columns: Tensor) -> None:
        of_rows[self.first : self.last] += squares.sum(1, dtype=torch.float64)
        if len(self.segment.shape) == 2:
            of_columns += squares.sum(0, dtype=torch.float64)
        else:
            of_columns.view(-1, self.columns).index_add_(0, self.matrix_of_row, squares.double())

    def divide(self, part: Tensor, rows: Tensor, columns: Tensor) -> None:
        """Divide gradients by the roots of the moments of entire rows and columns."""
        means = rows.view(-1, self.segment.shape[-2]).mean(1, dtype=torch.float64).float()
        of_rows = rows[self.first : self.last] / means[self.matrix_of_row]
        of_columns = columns.view(-1, self.columns)[self.matrix_of_row]
        # two roots: the product of two small moments would be 0
        part.mul_(of_rows.rsqrt_()[:, None]).mul_(of_columns.rsqrt_())
