"""Base class of optimizers that need sums over entire parameters, wherever ZeRO puts their elements."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from clozeline.train.optim.optimizers._optimizer import OptimizerBuilder
from clozeline.train.optim.weights.flat_buffers import Layout, local_layout

_TOGETHER: Final = 1 << 26
"""Elements of parameters that are updated together, at least one parameter: a bound of temporary memory."""
_CACHED: Final = 1 << 17
"""The same on a CPU, which has launches for nothing, and a cache."""


class WholeParameterOptimizer(torch.optim.Optimizer, ABC):
    """Updates many flats together, with known segments: launches of kernels do not multiply by parameters."""

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
            # flats of the same age, in bundles of bounded size
            by_age: dict[float, list[Tensor]] = defaultdict(list)
            for flat in group["params"]:
                if flat.grad is not None:
                    by_age[float(self.state[flat].get("step", 0.0))].append(flat)
            for flats in (bundle for alike in by_age.values() for bundle in bundles(alike)):
                self.update(group, flats, [flat.grad.contiguous() for flat in flats if flat.grad is not None])

    @abstractmethod
    def update(self, group: dict[str, Any], flats: list[Tensor], gradients: list[Tensor]) -> None:
        """Update flats of the same age and their states; all ranks make the same exchanges in the same order."""

    def states_of(self, flats: Sequence[Tensor], *keys: str) -> list[list[Tensor]]:
        """Return the states of each key, zeros at first, next to the number of updates, which is the key `step`."""
        for flat in flats:
            if not self.state[flat]:
                zeros = {key: torch.zeros_like(flat, requires_grad=False) for key in keys}
                self.state[flat] |= {"step": torch.tensor(0.0), **zeros}
        return [[self.state[flat][key] for flat in flats] for key in ("step", *keys)]


class WholeParameterBuilder(OptimizerBuilder):
    """Builds a `WholeParameterOptimizer`."""

    def bind(self, optimizer: torch.optim.Optimizer, layout: Layout) -> None:
        """Give the optimizer the segments of its flats."""
        assert isinstance(optimizer, WholeParameterOptimizer), "this builder made it"
        optimizer.layout = layout


def bundles(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Divide tensors into those to update together."""
    bundle: list[Tensor] = []
    elements = 0
    for tensor in tensors:
        elements += tensor.numel()
        if bundle and elements > (_CACHED if tensor.device.type == "cpu" else _TOGETHER):
            yield bundle
            bundle, elements = [], tensor.numel()
        bundle.append(tensor)
    if bundle:
        yield bundle


def square_sums(tensors: Sequence[Tensor], device: torch.device) -> Tensor:
    """Return the sum of squares of each tensor, in float64 on their device."""
    if not tensors:
        return torch.zeros(0, dtype=torch.float64, device=device)
    if device.type != "cpu":  # one launch
        return torch.stack(torch._foreach_norm(list(tensors), 2, dtype=torch.float64)).square_()
    # the same on a CPU, where torch's kernel takes twenty times as long
    sums = [sum([_square_sum(part) for part in torch.split(tensor.reshape(-1), _CACHED)]) for tensor in tensors]
    return torch.tensor(sums, dtype=torch.float64)


def _square_sum(tensor: Tensor) -> float:
    wide = tensor.double()
    return float(wide.dot(wide))
