"""The rule by which `prune` makes the model drop tokens."""

from collections.abc import Mapping, Sequence

from clozeline.extensions.compression.token_pruning import TokenPruning
from clozeline.extensions.compression.token_rules import TopTokens
from clozeline.model.build import Model
from clozeline.train.checkpoint.keys import StateKey


class TokenRuleKey(StateKey):
    """Rule by which the model drops tokens, a number per layer; empty: no token is dropped."""

    @staticmethod
    def restore(model: Model, value: Mapping[str, Sequence[float]]) -> Model:
        return TokenPruning(model, TopTokens(tuple(value["shares"]))) if value else model
