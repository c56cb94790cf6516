"""Base class of optimizers that need sums over entire parameters, wherever ZeRO puts their elements."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from clozeline.train.optim.optimizers._optimizer import OptimizerBuilder
from clozeline.train.optim.weights.flat_buffers import Layout, local_layout


class WholeParameterOptimizer(torch.optim.Optimizer, ABC):
    """Updates one flat at a time, with known segments."""

    def __init__(self, groups: Iterable[dict[str, Any]], rate: float) -> None:
        super().__init__(list(groups), {"lr": rate})
        self.layout = local_layout(self.param_groups)
        """Segments of the flats; until `bind`, each parameter is one flat."""
        self.whole: dict[str, Tensor] = {}
        """Unsliced states, fp32 and the same on every rank: `KEY/PARAMETER` → tensor."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every flat that has a gradient, the same ones on all ranks."""
        for group in self.param_groups:
            for flat in group["params"]:
                if flat.grad is not None:
                    self.update(group, flat, flat.grad.contiguous())

    @abstractmethod
    def update(self, group: dict[str, Any], flat: Tensor, gradient: Tensor) -> None:
        """Update a flat and its state; all ranks make the same exchanges in the same order."""

    def means(self, flat: Tensor, *terms: Tensor) -> dict[str, Tensor]:
        """Return means over entire parameters in float64: name → [terms]."""
        shapes = self.layout.shapes(flat)
        return {name: total / prod(shapes[name]) for name, total in self.layout.sums(flat, terms).items()}


class WholeParameterBuilder(OptimizerBuilder):
    """Builds a `WholeParameterOptimizer`."""

    def bind(self, optimizer: torch.optim.Optimizer, layout: Layout) -> None:
        """Give the optimizer the segments of its flats."""
        assert isinstance(optimizer, WholeParameterOptimizer), "this builder made it"
        optimizer.layout = layout


def begin_update(
    optimizer: torch.optim.Optimizer, flat: Tensor, keys: Sequence[str]
) -> tuple[float, dict[str, Tensor]]:
    """Count an update; return its index from 1, and the state of the flat, zeros at first."""
    state: dict[str, Tensor] = optimizer.state[flat]
    if not state:
        state["step"] = torch.tensor(0.0)
        state |= {key: torch.zeros_like(flat, requires_grad=False) for key in keys}
    state["step"] += 1
    return float(state["step"]), state
