"""The interface of regularizers, and their pull on weights."""

from abc import abstractmethod
from collections.abc import Collection
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from clozeline.model.configuration.capabilities import EARLIER_WEIGHTS, ONE_TRAINER
from clozeline.train.hooks import Hook, HookContext


class Anchored(NamedTuple):
    """Anchor and strength of some elements of a parameter."""

    anchor: Tensor
    """value that each element is pulled to, fp32"""
    strength: Tensor
    """strength for each element, fp32, ≥ 0"""


class Regularizer(Hook):
    """Chooses an anchor and a strength for each weight at the start, and pulls weights there."""

    needs: ClassVar = {EARLIER_WEIGHTS}
    prevents: ClassVar = {ONE_TRAINER}
    keys = frozenset(Anchored._fields)

    @abstractmethod
    def anchor(self, name: str, weight: Tensor, start: int, *, fresh: bool) -> Anchored:
        """Return anchors and strengths of elements of a parameter at the start of a run.

        `weight` are the elements `[start, start + len(weight))` of the flattened parameter, fp32. A
        `fresh` parameter is new in this run, not from `model.init_from`.
        """

    def check_model(self, model: nn.Module, fresh: Collection[str]) -> None:
        """Compute the anchors of all trainable parameters once, for a dry run."""
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                self.anchor(name, parameter.detach().flatten(), 0, fresh=name in fresh)

    def attach(self, context: HookContext) -> None:
        self._context = context
        context.optimizer.register_step_post_hook(self._pull)

    @torch.no_grad()
    def start(self, fresh: Collection[str], *, initialized: bool) -> None:
        if self.of:  # a checkpoint contained anchors
            return
        # each rank anchors the elements that it updates
        for flat, _ in self._context.flats:
            self.create(flat, self.keys)
            for piece in self._context.layout.local_segments(flat):
                anchored = self.anchor(
                    piece.name, piece.of(flat.detach()), piece.start, fresh=piece.name in fresh
                )
                for key, values in anchored._asdict().items():
                    piece.of(self.of[flat][key]).copy_(values)

    @torch.no_grad()
    def _pull(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        for group in optimizer.param_groups:
            for flat in filter(self.of.__contains__, group["params"]):
                pull(flat, *Anchored(**self.of[flat]), group["lr"])


def pull(weight: Tensor, anchor: Tensor, strength: Tensor, rate: float) -> None:
    """Move weights to the minimum of s/2 (v - a)² + (v - w)² / 2r over v, in place."""
    share = rate * strength
    weight.sub_((weight - anchor).mul_(share / (1.0 + share)))
