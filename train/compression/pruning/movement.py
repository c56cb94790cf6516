"""Movement pruning (arXiv 2005.07683): keep the weights that move away from zero."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Annotated, Any, ClassVar, Final, Literal

import torch
from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import config_class
from clozeline.configuration.unread_keys import refuse_unread_keys
from clozeline.model.compression.methods._selection import Sparsity
from clozeline.train.compression.pruning._pruning import CONFLICTS, MASK, CubicOptions, MaskedWeights
from clozeline.train.hooks import Step
from clozeline.train.optim.weights.flat_buffers import Segment

_BETAS: Final = (0.9, 0.999)
_EPSILON: Final = 1e-8
_STATES: Final = ("dense", "scores", "score_mean", "score_square")


class Movement(MaskedWeights):
    """Each weight W has a score S, which starts at 0 and is trained; the model computes with W' = W ⊙ mask.

    The gradient passes the mask straight through: ∂L/∂S = ∂L/∂W' ⊙ W, and ∂L/∂W = ∂L/∂W' ⊙ mask. Hard: the mask keeps
    the share of highest S in each matrix, which falls from 1 to `keep`. Soft: it keeps σ(S) > τ, where τ rises from 0
    to `threshold`, and the loss has λ · mean σ(S), where λ rises with τ to `penalty`. Adam trains the scores.

    W' is what the optimizer's tensors hold between updates; W and S are states next to them. A masked weight may come
    back.
    """

    options: Options
    claim: ClassVar = "BERT with 3 % of the weights and distillation: minimal loss of accuracy (2005.07683)"
    keys: ClassVar = frozenset({MASK, *_STATES})
    keeps_zeros: ClassVar = False
    conflicts: ClassVar = {
        **CONFLICTS,
        "regularizer": "it would pull masked weights, not those behind the masks",
        "optimizer.statistics": "sums over masked weights are not those of the weights behind the masks; choose adamw",
    }

    @config_class
    class Options(CubicOptions):
        """Share of weights that stay, or threshold and penalty of scores."""

        every: Annotated[int, Field(ge=1)] = 1
        """steps between two updates of the masks, also after `end`"""
        mode: Literal["hard", "soft"] = "hard"
        """hard: keep the highest scores of each matrix; soft: keep the scores above a threshold"""
        keep: Sparsity | None = None
        """hard: final share of the weights that stay, in (0, 1)"""
        threshold: Sparsity = 0.1
        """soft: final threshold τ of σ(S), in (0, 1)"""
        penalty: Annotated[float, Field(ge=0.0)] = 100.0
        """soft: final weight λ of the mean σ(S) in the loss, ≥ 0"""
        learning_rate: Annotated[float, Field(gt=0.0)] = 0.01
        """peak learning rate of the scores, > 0; the schedule multiplies it"""

        def __post_init__(self) -> None:
            super().__post_init__()
            if (self.mode == "hard") == (self.keep is None):
                expected = "a share in (0, 1), got none" if self.keep is None else f"none in soft mode, got {self.keep}"
                raise ValueError(f"keep: expected {expected}")
            refuse_unread_keys(self, "mode", {"soft": ("threshold", "penalty")})

    def describe_plan(self, horizon: int) -> str:
        options, last = self.options, self.options.last_step(horizon)
        kept = f"{100 * options.keep:g} % of them stay" if options.keep else f"σ(S) > {options.threshold:g} stays"
        return f"{kept}, by movement from step {options.start} to {last}"

    def new_states(self, flat: Tensor, *, masked: bool) -> dict[str, Tensor]:
        states = super().new_states(flat, masked=masked)
        zeros = {name: torch.zeros_like(flat, requires_grad=False) for name in _STATES if masked}
        return states | zeros | ({"dense": flat.detach().clone()} if masked else {})

    def begin(self, step: Step) -> None:
        self._step, self._rate = step.index, step.rate * self.options.learning_rate

    def before_update(self, flat: Tensor) -> None:
        """Update the scores, and give the optimizer the weights behind the masks with their gradient."""
        own, options = self.of[flat], self.options
        of_scores = flat.grad * own["dense"]  # type: ignore[operator]
        if options.mode == "soft":
            progress = options.progress(self._step, options.last_step(self._trained.horizon))
            share = own["scores"].sigmoid()
            of_scores += share * (1 - share) * (options.penalty * progress / sum(self._sizes.values()))
        # Adam without weight decay (arXiv 1412.6980); skipped steps count
        mean, square = own["score_mean"], own["score_square"]
        mean.lerp_(of_scores, 1 - _BETAS[0])
        square.mul_(_BETAS[1]).addcmul_(of_scores, of_scores, value=1 - _BETAS[1])
        scale = sqrt(1 - _BETAS[1] ** self._step)
        change = mean / (square.sqrt() / scale + _EPSILON)
        own["scores"].sub_(change, alpha=self._rate / (1 - _BETAS[0] ** self._step))
        super().before_update(flat)
        flat.copy_(own["dense"])

    def after_update(self, flat: Tensor) -> None:
        """Keep the new weights behind the masks, and mask the weights of the model."""
        self.of[flat]["dense"].copy_(flat)
        super().after_update(flat)

    @torch.no_grad()
    def end(self, step: Step, norm: float) -> Mapping[str, Any]:
        options, last = self.options, self.options.last_step(self._trained.horizon)
        done = step.index
        if done < options.start or ((done - options.start) % options.every and done != last):
            return {}
        progress = options.progress(done, last)
        if options.keep is not None:
            for mask, lowest in self.mask_lowest(self._scores_of, (1 - options.keep) * progress, "local"):
                mask.copy_(~lowest)
        else:
            for piece in self._own_segments():
                kept = self._scores_of(piece).sigmoid() > options.threshold * progress
                piece.of(self.of[piece.flat][MASK]).copy_(kept)
        for flat, own in self.of.items():
            if MASK in own:
                flat.copy_(own["dense"])
        self.apply()
        return {}

    def _scores_of(self, piece: Segment) -> Tensor:
        return piece.of(self.of[piece.flat]["scores"])
