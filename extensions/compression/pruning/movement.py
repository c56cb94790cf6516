"""Movement pruning (arXiv 2005.07683): keep the weights that move away from zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import sqrt
from typing import Annotated, Final, Literal

from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import Positive, config_class
from clozeline.configuration.unread_keys import refuse_unread_keys
from clozeline.extensions.compression.pruning._masked_weights import (
    MASK,
    MaskedWeights,
    MaskTarget,
)
from clozeline.extensions.compression.pruning._pruning import CubicOptions
from clozeline.extensions.compression.selection import Sparsity
from clozeline.model.configuration.capabilities import ONE_TRAINER, OWN_HISTORY
from clozeline.train.hooks import StepInfo

_BETAS: Final = (0.9, 0.999)
_EPSILON: Final = 1e-8
_STATES: Final = ("dense", "scores", "score_mean", "score_square")


class MovementPruning(MaskedWeights):
    """Train a score S for each weight W, initially 0; the model computes with W' = W ⊙ mask.

    The gradient passes straight through the mask: ∂L/∂S = ∂L/∂W' ⊙ W, and ∂L/∂W = ∂L/∂W' ⊙ mask.
    Hard: the mask keeps the share of highest S in each matrix, which falls from 1 to `keep`. Soft:
    it keeps σ(S) > τ, where τ rises from 0 to `threshold`, and the loss has λ · mean σ(S), where λ
    rises with τ to `penalty`. Adam trains the scores.

    W' is what the optimizer's tensors hold between updates; W and S are states next to them. A
    masked weight may return.
    """

    options: Options
    published_result = (
        "BERT with 3 % of the weights and distillation: minimal loss of accuracy (2005.07683)"
    )
    keys = frozenset({MASK, *_STATES})
    needs = MaskedWeights.needs | {ONE_TRAINER, OWN_HISTORY}
    can_unmask = True

    @config_class
    class Options(CubicOptions):
        """Share of weights that stay, or threshold and penalty of scores."""

        every: Positive = 1
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
                raise ValueError(
                    "keep: hard mode needs a share in (0, 1)"
                    if self.keep is None
                    else f"keep: has no effect in soft mode, got {self.keep}: remove it"
                )
            refuse_unread_keys(self, "mode", {"soft": ("threshold", "penalty")})

    def describe_plan(self, horizon: int) -> str:
        options = self.options
        last = self.options.last_step(horizon)
        rule = (
            f"{100 * options.keep:g} % of them stay"
            if options.keep
            else f"σ(S) > {options.threshold:g} stays"
        )
        return f"{rule}, by movement from step {options.start} to {last}"

    def new_states(self, weights: Tensor, *, masked: bool) -> dict[str, Tensor]:
        if not masked:
            return {}
        zeros = {name: weights.new_zeros(weights.shape) for name in _STATES}
        return {**super().new_states(weights, masked=True), **zeros, "dense": weights.clone()}

    def begin(self, step: StepInfo) -> None:
        self._step = step.index
        self._rate = step.rate * self.options.learning_rate

    def _progress(self, step: int) -> float:
        return self.options.progress(step, self.options.last_step(self.context.horizon))

    def before_update(self, weights: Tensor, states: Mapping[str, Tensor]) -> None:
        """Update the scores, and give the optimizer the unmasked weights with their gradient."""
        options = self.options
        scores = states["scores"]
        gradient = weights.grad * states["dense"]  # type: ignore[operator]

        if options.mode == "soft":
            probability = scores.sigmoid()
            strength = options.penalty * self._progress(self._step) / sum(self.sizes.values())
            gradient += probability * (1 - probability) * strength
        # Adam without weight decay (arXiv 1412.6980); skipped steps count
        mean = states["score_mean"]
        square = states["score_square"]
        mean.lerp_(gradient, 1 - _BETAS[0])
        square.mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1 - _BETAS[1])
        scale = sqrt(1 - _BETAS[1] ** self._step)
        change = mean / (square.sqrt() / scale + _EPSILON)
        scores.sub_(change, alpha=self._rate / (1 - _BETAS[0] ** self._step))

        # masked gradients; the optimizer updates the weights behind the masks
        super().before_update(weights, states)
        weights.copy_(states["dense"])

    def after_update(self, weights: Tensor, states: Mapping[str, Tensor]) -> None:
        """Store the new weights behind the masks."""
        states["dense"].copy_(weights)

    def mask_target(self, step: int) -> MaskTarget | None:
        options = self.options
        last = self.options.last_step(self.context.horizon)
        if step < options.start or ((step - options.start) % options.every and step != last):
            return None
        if options.keep is not None:
            return MaskTarget((1 - options.keep) * self._progress(step))
        return MaskTarget(threshold=options.threshold * self._progress(step))

    def compared_values(self, weights: Tensor, states: Mapping[str, Tensor]) -> Tensor:
        return states["scores"] if self.options.mode == "hard" else states["scores"].sigmoid()

    def after_masking(
        self, weights: Tensor, states: Mapping[str, Tensor], moments: Iterable[Tensor]
    ) -> None:
        """Restore the unmasked weights, which are then masked anew."""
        if MASK in states:
            weights.copy_(states["dense"])
