"""Adafactor: second moments of a matrix from those of its rows and columns (arXiv 1804.04235), as in torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass as plain_dataclass
from math import prod
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import config_class
from clozeline.train.optim.optimizers import OptimizerOptions
from clozeline.train.optim.optimizers._whole_parameters import (
    WholeParameterBuilder,
    WholeParameterOptimizer,
    begin_update,
)
from clozeline.train.optim.weights.flat_buffers import Segment


class Adafactor(WholeParameterBuilder):
    """T5's optimizer: learning rate relative to the weights, updates clipped by root mean square, no momentum.

    A vector has a second moment per element; a matrix two vectors of moments, stored on every rank.
    """

    statistics: ClassVar[Literal["matrix"]] = "matrix"
    states: ClassVar[int] = 0
    """for matrices; vectors have 1"""

    @config_class
    class Options(OptimizerOptions):
        """Options of Adafactor; the learning rate is relative to the root mean square of each parameter."""

        learning_rate: float = Field(
            default=1e-2,
            gt=0.0,
            description="peak rate, > 0; at step t at most 1 / sqrt(t); the schedule multiplies it",
        )
        weight_decay: float = Field(default=0.0, ge=0.0)
        """decoupled decay of matrices, ≥ 0; biases and norms have none"""
        beta2_decay: float = Field(default=-0.8, le=0.0)
        """Step t decays second moments by 1 - t ** beta2_decay, ≤ 0."""
        eps: float = Field(default=1.1920929e-07, ge=1e-18)
        """Minimum root of a second moment, and of the mean of row moments, ≥ 1e-18."""
        least_size: float = Field(default=1e-3, ge=0.0)
        """Minimum root mean square of a parameter, ≥ 0."""
        clip: float = Field(default=1.0, ge=1.0)
        """Maximum root mean square of an update before the learning rate, ≥ 1."""

    options: Options

    def build(self, groups: Sequence[dict[str, Any]]) -> torch.optim.Optimizer:
        """Return the optimizer; each group holds matrices alone, or vectors alone."""
        return _Adafactor(groups, self.options)


class _Adafactor(WholeParameterOptimizer):
    """Adafactor over flats; `whole` holds the moments `row/NAME` and `col/NAME`."""

    def __init__(self, groups: Sequence[dict[str, Any]], options: Adafactor.Options) -> None:
        super().__init__(groups, options.learning_rate)
        self.options = options

    def update(self, group: dict[str, Any], flat: Tensor, gradient: Tensor) -> None:
        """Update second moments, then weights by the size of their parameter and of its update."""
        # direction: gradients divided by the roots of second moments
        vectors = all(len(shape) < 2 for shape in self.layout.shapes(flat).values())
        step, state = begin_update(self, flat, ("variance",) if vectors else ())
        sizes = self.means(flat, flat.detach().square())
        if vectors:
            state["variance"].lerp_(gradient.square(), step**self.options.beta2_decay)
            direction = gradient * self._inverse_root(state["variance"].clone())
        else:
            direction = self._precondition(flat, gradient, step**self.options.beta2_decay)
        # relative step: scaled by the parameter, clipped by the update
        strengths = self.means(flat, direction.square())
        share = min(group["lr"], step**-0.5)
        for s in self.layout.own(flat):
            rate = sizes[s.name][0].sqrt().clamp(min=self.options.least_size) * share
            rate /= (strengths[s.name][0].sqrt() / self.options.clip).clamp(min=1.0)
            s.of(flat).mul_(1 - group["lr"] * group["weight_decay"]).sub_(s.of(direction).mul_(rate.float()))

    def _inverse_root(self, second_moment: Tensor) -> Tensor:
        return second_moment.clamp_(min=self.options.eps**2).rsqrt_()

    def _precondition(self, flat: Tensor, gradient: Tensor, weight: float) -> Tensor:
        """Update row and column moments; return gradients divided by the roots of their products."""
        self._update_factors(flat, gradient, weight)
        direction = torch.zeros_like(flat)
        for s in self.layout.own(flat):
            band, row, col = _Band.of(s), self.whole[f"row/{s.name}"], self.whole[f"col/{s.name}"]
            means = row.view(band.matrices, -1).mean(1).clamp_(min=self.options.eps)
            moments = row[band.first : band.last, None] * col.view(band.matrices, -1)[band.matrix_of_row]
            moments.div_(means[band.matrix_of_row, None])
            scaled = band.pad(s.of(gradient)).mul_(self._inverse_root(moments))
            s.of(direction).copy_(scaled.view(-1).narrow(0, band.lead, s.count))
        return direction

    def _update_factors(self, flat: Tensor, gradient: Tensor, weight: float) -> None:
        """Update the second moments with means over entire rows and columns, summed over ranks by one exchange."""
        # sums: per parameter, row sums then column sums of squared gradients
        shapes = self.layout.shapes(flat)
        lengths = {name: [prod(shape[:-1]), prod(shape[:-2]) * shape[-1]] for name, shape in shapes.items()}
        sums = torch.zeros(sum(map(sum, lengths.values())), dtype=torch.float64, device=flat.device)
        parts = dict(zip(lengths, torch.split(sums, [sum(two) for two in lengths.values()]), strict=True))
        # add the squares of this rank's slices
        for s in self.layout.own(flat):
            rows, columns = torch.split(parts[s.name], lengths[s.name])
            band = _Band.of(s)
            squares = band.pad(s.of(gradient)).square_()
            rows[band.first : band.last] += squares.sum(1, dtype=torch.float64)
            by_matrix = columns.view(band.matrices, -1)
            if band.matrices == 1:
                by_matrix[0] += squares.sum(0, dtype=torch.float64)
            else:
                by_matrix.index_add_(0, band.matrix_of_row.to(flat.device), squares.double())
        # sum over ranks, then update the moving moments
        self.layout.total(sums)
        for name, shape in shapes.items():
            rows, columns = torch.split(parts[name], lengths[name])
            for key, means in (("row", rows / shape[-1]), ("col", columns / shape[-2])):
                kept = self.whole.setdefault(f"{key}/{name}", torch.zeros_like(means, dtype=torch.float32))
                kept.lerp_(means.float(), weight)


@plain_dataclass(frozen=True)
class _Band:
    """The matrix rows that a slice of a parameter touches; stacked matrices count as one."""

    first: int
    last: int
    lead: int
    """elements of the first row before the slice"""
    columns: int
    matrices: int
    matrix_of_row: Tensor
    """matrix index of each of these rows"""

    @staticmethod
    def of(s: Segment) -> _Band:
        rows, columns = s.shape[-2:]
        first, last = s.start // columns, -(-(s.start + s.count) // columns)
        matrix_of_row = torch.arange(first, last) // rows
        return _Band(first, last, s.start % columns, columns, prod(s.shape[:-2]), matrix_of_row)

    def pad(self, elements: Tensor) -> Tensor:
        rows = elements.new_zeros((self.last - self.first) * self.columns)
        rows[self.lead : self.lead + len(elements)] = elements
        return rows.view(-1, self.columns)
