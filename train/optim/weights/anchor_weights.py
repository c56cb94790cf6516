"""Hold the anchors that regularizers pull weights to, sharded, saved and resumed like optimizer state."""

from collections.abc import Collection, Iterator
from typing import Any, Final

import torch
from torch import Tensor, nn

from clozeline.train.optim.regularizers import Regularizer
from clozeline.train.optim.regularizers._regularizer import Anchored, pull, push

ANCHOR_STATES: Final = ("anchor", "strength")
"""Names of the states in a checkpoint, in the order of `Anchored`."""


def check_anchors(regularizer: Regularizer, model: nn.Module, fresh: Collection[str]) -> None:
    """Compute the anchors of all trainable parameters once, for a dry run."""
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            regularizer.anchor(name, parameter.detach().flatten(), 0, fresh=name in fresh)


class Anchors:
    """Anchors and strengths of each optimizer tensor, in its shape."""

    def __init__(self, optimizer: torch.optim.Optimizer, regularizer: Regularizer) -> None:
        self.regularizer = regularizer
        self.of: dict[Tensor, dict[str, Tensor]] = {}
        if regularizer.options.explicit:
            optimizer.register_step_pre_hook(self._push)
        else:
            optimizer.register_step_post_hook(self._pull)

    def create(self, flat: Tensor) -> dict[str, Tensor]:
        """Return new anchors and strengths of an optimizer tensor, zeros."""
        return self.of.setdefault(flat, {key: torch.zeros_like(flat, requires_grad=False) for key in ANCHOR_STATES})

    def fill(self, name: str, start: int, tensors: dict[str, Tensor], fresh: Collection[str]) -> None:
        """Set the anchors of elements of a parameter, given views of their `weight` and of the anchor states."""
        anchored = self.regularizer.anchor(name, tensors["weight"], start, fresh=name in fresh)
        for key, values in zip(ANCHOR_STATES, anchored, strict=True):
            tensors[key].copy_(values)

    @torch.no_grad()
    def _pull(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for flat, anchored, rate in self._iterate(optimizer):
            pull(flat, *anchored, rate)

    @torch.no_grad()
    def _push(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for flat, anchored, _rate in self._iterate(optimizer):
            if flat.grad is not None:
                push(flat.grad, flat, *anchored)

    def _iterate(self, optimizer: torch.optim.Optimizer) -> Iterator[tuple[Tensor, Anchored, float]]:
        for group in optimizer.param_groups:
            for flat in filter(self.of.__contains__, group["params"]):
                yield flat, Anchored(**self.of[flat]), group["lr"]
