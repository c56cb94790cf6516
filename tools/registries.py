"""The registries of the tools: what extensions add to the commands of others."""

from typing import TYPE_CHECKING

from clozeline.registry import Registry

if TYPE_CHECKING:  # a command line reads keys without what computes, which imports torch
    from clozeline.tools.runs.scoring_keys import ScoringKey
    from clozeline.tools.shards.column_kinds import ColumnKind

COLUMN_KINDS: Registry["ColumnKind"] = Registry(
    "clozeline.tools.shards.column_kinds", "ColumnKind", named_by="config_key"
)
"""Kinds of column sets, by the key that the `config` of their manifest has."""
SCORING_KEYS: Registry["ScoringKey"] = Registry(
    "clozeline.tools.runs.scoring_keys", "ScoringKey", suffix="Config", address="keys/scoring"
)
"""Keys that extensions add to the scoring of labeled rows."""
