"""The rule by which `prune` makes the model drop tokens."""

from clozeline.extensions.compression.token_pruning import TokenPruning
from clozeline.extensions.compression.token_rules import RuleRecord, read_rule
from clozeline.model.build import Model
from clozeline.train.checkpoint.keys import StateKey


class TokenRuleKey(StateKey):
    """Rule by which the model drops tokens: a number per layer."""

    @staticmethod
    def restore(model: Model, value: RuleRecord) -> Model:
        rule = read_rule(value)
        return model if rule is None else TokenPruning(model, rule)
