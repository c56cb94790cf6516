"""Token pruning (arXiv 2001.08950): later layers read fewer tokens of a row, in training, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from clozeline.configuration.config import config_class
from clozeline.extensions.compression.pruning._pruning import Pruning
from clozeline.extensions.compression.token_pruning import TokenPruning
from clozeline.extensions.compression.token_rules import TopTokens
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
from clozeline.train.hooks import UnwrappedModel


class TokensPruning(Pruning):
    """Drop the tokens that receive little attention, from the first step.

    PoWER-BERT learns how many tokens stay; a fixed schedule is as good where we measured it.
    Checkpoints store the shares: tools that load the run drop tokens by them.
    """

    options: Options
    published_result = (
        "PoWER-BERT: up to 4.5 times less inference time with less than 1 % loss of accuracy "
        "(2001.08950)"
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
        """How many tokens stay."""

        shares: tuple[float, ...]
        """share of a row's tokens that each layer keeps, in (0, 1], never rising"""

    def wrap(self, new: UnwrappedModel) -> TokenPruning:
        return TokenPruning(super().wrap(new), TopTokens(self.options.shares))

    def describe(self, model: Model, horizon: int) -> str:
        TokenPruning(model, TopTokens(self.options.shares))
        shares = ", ".join(map(str, self.options.shares))
        return f"prune      layers keep these shares of a row's tokens: {shares}"

    @property
    def in_state(self) -> Mapping[str, Mapping[str, tuple[float, ...]]]:
        return {"token_rule": {"shares": self.options.shares}}
