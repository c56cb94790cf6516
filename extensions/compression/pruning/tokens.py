"""Learned token pruning (arXiv 2001.08950, 2107.00910): train how many tokens later layers read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

import torch
import torch.distributed as dist
from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import Positive, config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.pruning._pruning import Pruning
from clozeline.extensions.compression.token_pruning import TokenPruning
from clozeline.extensions.compression.token_rules import (
    LearnedRetention,
    LearnedThresholds,
    RuleRecord,
    SoftRule,
    TopTokens,
    write_rule,
)
from clozeline.model.build import Model
from clozeline.model.configuration.capabilities import (
    ALL_STATES,
    EAGER_LAYERS,
    EVALUATED_WEIGHTS,
    EXACT_WEIGHTS,
    LAYERS_RUN_ONCE,
    STATES_ON_DEVICE,
    TRAINED_BODY,
)
from clozeline.train.hooks import HookContext, StepInfo, UnwrappedModel

_RATES: Final = {"retention": 0.01, "thresholds": 1e-3}
_READ_BY_RULE: Final = {
    "retention": ("weight", "harden", "learning_rate", "positions"),
    "thresholds": ("weight", "harden", "learning_rate", "last", "temperature"),
    "shares": ("shares",),
}


class TokensPruning(Pruning):
    """Drop the tokens that receive little attention, by a rule that is trained with the model.

    Until step `harden`, all tokens stay, and their states are multiplied by masks in [0, 1]; the
    loss has `weight` times the penalty of the masks. From then on tokens are dropped, and the
    remaining steps train the model with this rule. Retention masks the n-th most attended tokens of
    each layer (PoWER-BERT), thresholds mask tokens with little attention (LTP). Adam trains the
    rule; its gradient is not clipped, and a gradient that is not finite changes nothing.

    Checkpoints store the hard rule: tools that load the run drop tokens by it.
    """

    options: Options
    published_result = (
        "PoWER-BERT: up to 4.5 times less inference time with less than 1 % loss of accuracy "
        "(2001.08950); LTP: up to 2.1 times fewer FLOPs with less than 1 % loss (2107.00910)"
    )
    unsupported = frozenset({"document_ids", "left_padding"})
    needs: ClassVar = {
        EXACT_WEIGHTS,
        TRAINED_BODY,
        EVALUATED_WEIGHTS,
        STATES_ON_DEVICE,
        EAGER_LAYERS,
        LAYERS_RUN_ONCE,
    }
    prevents = Pruning.prevents | {ALL_STATES}

    @config_class
    class Options:
        """The rule, and how it trains."""

        rule: Literal["retention", "thresholds", "shares"]
        """retention: learn how many tokens of a row each layer keeps; thresholds: learn how much
        attention a token needs to stay; shares: keep the shares that `shares` lists, from the first
        step"""
        weight: Annotated[float, Field(ge=0.0)] | None = None
        """weight of the penalty in the loss, ≥ 0: the higher, the fewer tokens stay. The penalty of
        retention is the sum over layers of layer number x entries kept, that of thresholds the mean
        mask"""
        harden: Positive | None = None
        """last step with masks; at most schedule.steps; null: half of schedule.steps"""
        learning_rate: Annotated[float, Field(gt=0.0)] | None = None
        """peak learning rate of the rule, > 0; the schedule multiplies it; null: 0.01 for
        retention, 0.001 for thresholds"""
        positions: Annotated[int, Field(ge=2)] | None = None
        """retention: entries of a layer, ≥ 2, which rows of all lengths share. At most the length
        of usual rows; null: 32"""
        last: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
        """thresholds: initial threshold of the last layer, in [0, 1]; earlier ones rise to it
        linearly; null: 0.01"""
        temperature: Annotated[float, Field(gt=0.0)] | None = None
        """thresholds: temperature of the sigmoid, > 0: the lower, the harder the mask; null:
        0.002"""
        shares: tuple[float, ...] = ()
        """shares: share of a row's tokens that each layer keeps, in (0, 1], never rising"""

        def __post_init__(self) -> None:
            # a key of another rule must be unset
            read = _READ_BY_RULE[self.rule]
            unread = sorted(
                {key for keys in _READ_BY_RULE.values() for key in keys}.difference(read)
            )
            for key in unread:
                if getattr(self, key) not in (None, ()):
                    raise ValueError(
                        f"{key}: the rule {self.rule} does not read it; remove it. The rule reads "
                        f"{', '.join(read)}"
                    )
            # the first key of the rule must be set
            if (required := read[0]) and getattr(self, required) in (None, ()):
                expected = (
                    "the weight of the penalty, ≥ 0"
                    if required == "weight"
                    else "one share in (0, 1] per layer"
                )
                raise ValueError(f"{required}: the rule {self.rule} needs {expected}")

    def wrap(self, new: UnwrappedModel) -> TokenPruning:
        return self.prune(super().wrap(new))

    def prune(self, model: Model) -> TokenPruning:
        """Return the model with the rule of the first step."""
        options = self.options
        layers = model.config.layers
        soft: SoftRule | None = None
        if options.rule == "retention":
            soft = LearnedRetention(layers, options.positions or 32)
        elif options.rule == "thresholds":
            last = 0.01 if options.last is None else options.last
            soft = LearnedThresholds(layers, last, options.temperature or 2e-3)
        self._soft = soft
        return TokenPruning(model, soft or TopTokens(options.shares), options.weight or 0.0)

    def describe(self, model: Model, horizon: int) -> str:
        self.prune(model)
        if self._soft is None:
            return (
                "prune      layers keep these shares of a row's tokens: "
                f"{', '.join(map(str, self.options.shares))}"
            )
        return (
            f"prune      {self.options.rule} of tokens, masks until step "
            f"{self._last_soft(horizon)}, then dropped"
        )

    def attach(self, context: HookContext) -> None:
        self._harden = self._last_soft(context.horizon)
        self._model: TokenPruning = context.model  # type: ignore[assignment]
        self._buffers: dict[str, Tensor] = {}

        # Adam's state exists from the start, so that a checkpoint can restore it
        if self._soft is None:
            return
        (values,) = self._soft.to(context.world.device).parameters()
        self._adam = torch.optim.Adam([values], lr=0.0)
        states = {
            name: torch.zeros_like(values, requires_grad=False)
            for name in ("exp_avg", "exp_avg_sq")
        }
        self._adam.state[values] = {"step": torch.zeros(()), **states}
        self._buffers = {
            f"prune.{name}": tensor
            for name, tensor in {"values": values, **self._adam.state[values]}.items()
        }

    @property
    def in_state(self) -> Mapping[str, RuleRecord]:
        return {"token_rule": write_rule(self._model.rule)}

    @property
    def buffers(self) -> dict[str, Tensor]:
        return self._buffers

    def resume(self, step: int) -> None:
        self._choose(step)

    def begin(self, step: StepInfo) -> None:
        if self._soft is not None:
            self._adam.zero_grad()
            peak = self.options.learning_rate or _RATES[self.options.rule]
            self._adam.param_groups[0]["lr"] = step.rate * peak

    @torch.no_grad()
    def end(self, step: StepInfo, norm: float) -> Mapping[str, Any]:
        if self._soft is None:
            return {}
        (values,) = self._soft.parameters()

        if step.index <= self._harden and values.grad is not None:
            # each rank has the gradient of its rows, times the number of ranks
            gradient = values.grad.double()
            if dist.is_initialized():
                dist.all_reduce(gradient)
                gradient /= dist.get_world_size()
            if bool(gradient.isfinite().all()):
                values.grad.copy_(gradient)
                self._adam.step()
                self._soft.clip()

        self._choose(step.index)
        return {}

    def _choose(self, step: int) -> None:
        """Set the rule after a step."""
        if self._soft is not None:
            self._model.use_rule(self._soft if step < self._harden else self._soft.harden())

    def _last_soft(self, horizon: int) -> int:
        last = max(1, horizon // 2) if self.options.harden is None else self.options.harden
        if self._soft is not None and last > horizon:
            raise ConfigurationError(
                f"prune.harden: expected at most {horizon}, the last step of the schedule "
                f"(schedule.steps, by default steps), got {last}: no token would ever be dropped"
            )
        return last
