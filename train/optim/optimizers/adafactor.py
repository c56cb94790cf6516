"""Adafactor: second moments of a matrix from those of its rows and columns (arXiv 1804.04235), as in torch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass as plain_dataclass
from itertools import accumulate
from math import prod
from typing import Any, ClassVar, Final, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from clozeline.configuration.config import config_class
from clozeline.train.optim.optimizers import OptimizerOptions
from clozeline.train.optim.optimizers._whole_parameters import (
    WholeParameterBuilder,
    WholeParameterOptimizer,
    square_sums,
)
from clozeline.train.optim.weights.flat_buffers import Layout

_BETA2_DECAY: Final = -0.8
"""Step t decays second moments by 1 - t ** this."""
_LEAST_SIZE: Final = 1e-3
"""Minimum root mean square of a parameter."""


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
        eps: float = Field(default=1.1920929e-07, ge=1e-18)
        """Minimum root of a second moment, and of the mean of row moments, ≥ 1e-18."""

    options: Options

    def build(self, groups: Sequence[dict[str, Any]]) -> torch.optim.Optimizer:
        """Return the optimizer; each group holds matrices alone, or vectors alone."""
        return _Adafactor(groups, self.options)


class _Adafactor(WholeParameterOptimizer):
    """Adafactor over flats; `whole` holds the moments `row/NAME` and `col/NAME`."""

    def __init__(self, groups: Sequence[dict[str, Any]], options: Adafactor.Options) -> None:
        super().__init__(groups, options.learning_rate)
        self.options = options
        self._plans: dict[tuple[Tensor, ...], _Plan] = {}

    def update(self, group: dict[str, Any], flats: list[Tensor], gradients: list[Tensor]) -> None:
        """Update second moments, then weights by the size of their parameter and of its update."""
        if any(len(shape) > 1 for shape in self.layout.shapes(*flats).values()):
            self._update_matrices(group, flats, gradients)
            return
        step, (variances,) = self.begin(flats, "variance")
        torch._foreach_lerp_(variances, torch._foreach_mul(gradients, gradients), step**_BETA2_DECAY)
        roots = torch._foreach_clamp_min(variances, self.options.eps**2)
        torch._foreach_rsqrt_(roots)
        torch._foreach_mul_(roots, gradients)
        sizes, strengths = self.roots_of_means(flats, flats, roots).unbind(1)
        self._decay(group, flats)
        self.descend(flats, roots, self._rates(group, step, sizes, strengths))

    def _decay(self, group: dict[str, Any], flats: list[Tensor]) -> None:
        if group["weight_decay"]:
            torch._foreach_mul_(flats, 1 - group["lr"] * group["weight_decay"])

    def _rates(self, group: dict[str, Any], step: float, sizes: Tensor, strengths: Tensor) -> Tensor:
        """Return relative steps, scaled by root mean squares of parameters, clipped where those of updates exceed 1."""
        share = min(group["lr"], step**-0.5)
        rates: Tensor = sizes.clamp(min=_LEAST_SIZE) * share
        return rates.div_(strengths.clamp(min=1.0))

    def _update_matrices(self, group: dict[str, Any], flats: list[Tensor], gradients: list[Tensor]) -> None:
        """Update matrices, slices of equal shape together: launches multiply by shapes, not by parameters."""
        layout, (step, _) = self.layout, self.begin(flats)
        if tuple(flats) not in self._plans:
            self._plans[tuple(flats)] = _Plan.of(layout, flats)
        plan = self._plans[tuple(flats)]
        weights, slices = (plan.reorder(layout.pieces(flats, of)) for of in (flats, gradients))
        parts = [stack.pad(of) for stack, of in zip(plan.stacks, plan.deal(slices), strict=True)]
        # sums over entire parameters by one exchange: squares of weights, of rows and columns of gradients
        sums = torch.zeros(sum(block.length for block in plan.blocks), dtype=torch.float64, device=flats[0].device)
        of_weights = plan.deal(square_sums(weights, sums.device))
        for stack, part, squares in zip(plan.stacks, parts, of_weights, strict=True):
            stack.add_sums(sums, squares, part.square())
        layout.total(sums)
        # moving means of rows and columns
        kept: list[Tensor] = []
        found: list[Tensor] = []
        for block in plan.blocks:
            _, rows, columns = block.split(block.of(sums))
            for key, means in (("row", (rows / block.shape[-1]).float()), ("col", (columns / block.shape[-2]).float())):
                new = [name for name in block.names if f"{key}/{name}" not in self.whole]
                self.whole |= zip([f"{key}/{name}" for name in new], torch.zeros_like(means[: len(new)]), strict=True)
                kept += [self.whole[f"{key}/{name}"] for name in block.names]
                found += means.unbind()
        torch._foreach_lerp_(kept, found, step**_BETA2_DECAY)
        # directions: gradients divided by the roots of second moments
        for stack, part in zip(plan.stacks, parts, strict=True):
            rows, columns = (
                torch.stack([self.whole[f"{key}/{name}"] for name in stack.names]) for key in ("row", "col")
            )
            moments = stack.moments(rows, columns, self.options.eps)
            part.mul_(moments.clamp_(min=self.options.eps**2).rsqrt_())
        # squares of directions by one more exchange
        strengths = sums.new_zeros(len(plan.sizes))
        strengths.index_copy_(0, plan.places, square_sums([one for of in parts for one in of.unbind()], sums.device))
        squares = torch.stack([torch.cat([block.of(sums)[:, 0] for block in plan.blocks]), layout.total(strengths)])
        # step
        rates = plan.deal(self._rates(group, step, *(squares / plan.sizes).sqrt_()[:, plan.places]).float())
        for part, of in zip(parts, rates, strict=True):
            part.mul_(of[:, None, None])
        self._decay(group, flats)
        if weights:
            cut = [one for stack, part in zip(plan.stacks, parts, strict=True) for one in stack.cut(part)]
            torch._foreach_sub_([weight.view(-1) for weight in weights], cut)


@plain_dataclass(frozen=True)
class _Block:
    """Parameters of one shape on any rank; of each, a row of sums: its square, those of rows and of columns."""

    shape: tuple[int, ...]
    names: list[str]
    offset: int
    """of these rows in all sums"""

    @property
    def parts(self) -> list[int]:
        return [1, prod(self.shape[:-1]), prod(self.shape[:-2]) * self.shape[-1]]

    @property
    def length(self) -> int:
        return len(self.names) * sum(self.parts)

    def of(self, sums: Tensor) -> Tensor:
        return sums.narrow(0, self.offset, self.length).view(len(self.names), -1)

    def split(self, sums: Tensor) -> Sequence[Tensor]:
        return torch.split(sums, self.parts, dim=1)


@plain_dataclass(frozen=True)
class _Stack:
    """Slices on this rank of equal shape and place, as whole rows [slices, rows, columns]: zeros where a row is cut.

    The rows of stacked matrices count as those of one.
    """

    block: _Block
    own: list[int]
    """indices of the slices"""
    names: list[str]
    start: int
    count: int
    rows_of: Tensor
    """of the block: [slices]"""
    matrix_of_row: Tensor

    @property
    def first(self) -> int:
        return self.start // self.block.shape[-1]

    @property
    def last(self) -> int:
        return -(-(self.start + self.count) // self.block.shape[-1])

    @property
    def lead(self) -> int:
        """Elements of the first row before the slice."""
        return self.start % self.block.shape[-1]

    def pad(self, slices: Sequence[Tensor]) -> Tensor:
        columns = self.block.shape[-1]
        trail = (self.last - self.first) * columns - self.lead - self.count
        stacked = torch.stack(list(slices)).reshape(len(slices), -1)
        return (F.pad(stacked, (self.lead, trail)) if self.lead or trail else stacked).view(len(slices), -1, columns)

    def cut(self, part: Tensor) -> Sequence[Tensor]:
        """Return the slices of a stack as vectors."""
        return part.flatten(1).narrow(1, self.lead, self.count).unbind()

    def add_sums(self, sums: Tensor, of_weights: Tensor, squares: Tensor) -> None:
        own = sums.new_zeros(len(squares), sum(self.block.parts))
        whole, rows, columns = self.block.split(own)
        whole[:, 0] = of_weights
        rows[:, self.first : self.last] = squares.sum(2, dtype=torch.float64)
        if len(self.block.shape) == 2:
            columns.copy_(squares.sum(1, dtype=torch.float64))
        else:
            by_matrix = columns.view(len(squares), -1, self.block.shape[-1])
            by_matrix.index_add_(1, self.matrix_of_row, squares.double())
        self.block.of(sums).index_copy_(0, self.rows_of, own)

    def moments(self, rows: Tensor, columns: Tensor, eps: float) -> Tensor:
        """Return second moments of each element, from those of entire rows and columns: [slices, parameter's]."""
        by_matrix = (len(rows), prod(self.block.shape[:-2]), -1)
        means = rows.view(by_matrix).mean(2, dtype=torch.float64).float().clamp_(min=eps)
        columns = columns.view(by_matrix)
        if len(self.block.shape) > 2:
            columns, means = (of.index_select(1, self.matrix_of_row) for of in (columns, means))
        return (rows[:, self.first : self.last, None] * columns).div_(means[:, :, None])


@plain_dataclass(frozen=True)
class _Plan:
    """Blocks and stacks of flats."""

    blocks: list[_Block]
    stacks: list[_Stack]
    places: Tensor
    """of slices, in the order of stacks, among the parameters, in the order of blocks"""
    sizes: Tensor
    """elements of the parameters"""

    @staticmethod
    def of(layout: Layout, flats: Sequence[Tensor]) -> _Plan:
        device = flats[0].device
        # parameters by shape, the same on all ranks
        by_shape: dict[tuple[int, ...], list[str]] = defaultdict(list)
        for name, shape in layout.shapes(*flats).items():
            by_shape[shape].append(name)
        blocks, offset = {}, 0
        for shape, names in sorted(by_shape.items()):
            blocks[shape] = _Block(shape, names, offset)
            offset += blocks[shape].length
        places = {name: place for place, name in enumerate(n for block in blocks.values() for n in block.names)}
        # slices by shape and place
        own = layout.own(*flats)
        alike: dict[tuple[tuple[int, ...], int, int], list[int]] = defaultdict(list)
        for index, s in enumerate(own):
            alike[s.shape, s.start, s.count].append(index)
        stacks = []
        for (shape, start, count), indices in alike.items():
            names = [own[index].name for index in indices]
            rows_of = torch.tensor([blocks[shape].names.index(name) for name in names], device=device)
            rows = torch.arange(start // shape[-1], -(-(start + count) // shape[-1]), device=device)
            stacks.append(_Stack(blocks[shape], indices, names, start, count, rows_of, rows // shape[-2]))
        of_slices = torch.tensor([places[name] for stack in stacks for name in stack.names], device=device).long()
        sizes = [float(prod(block.shape)) for block in blocks.values() for _ in block.names]
        return _Plan(list(blocks.values()), stacks, of_slices, torch.tensor(sizes, dtype=torch.float64, device=device))

    def reorder(self, pieces: Sequence[Tensor]) -> list[Tensor]:
        """Put pieces in the order of stacks."""
        return [pieces[index] for stack in self.stacks for index in stack.own]

    def deal(self, values: Any) -> list[Any]:
        """Divide values in the order of stacks among these."""
        ends = list(accumulate(len(stack.own) for stack in self.stacks))
        return [values[end - len(stack.own) : end] for stack, end in zip(self.stacks, ends, strict=True)]
