"""Refuse sets whose labels are not meant for a head of the model."""

from collections.abc import Collection

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.shards import Manifest
from clozeline.registry import find, names
from clozeline.train.configuration.model_source import unset_head_key

_AFTER_GENERATOR = frozenset({"token", "corrective"})
"""Heads that judge a generator's tokens if the objective also serves masked LM."""


def judges_generator(target: str, served: Collection[str]) -> bool:
    """Return whether a head judges a generator's tokens, given the heads that the objective serves."""
    return target in _AFTER_GENERATOR and "masked_lm" in served


def find_targets(manifest: Manifest, model: ModelConfig) -> set[str]:
    """Return the heads that a set serves; with a generator, its rows also serve the heads that judge it."""
    served = set(manifest.objective.heads if manifest.objective else ())
    generator = find("clozeline.model.families", model.family).generator_targets
    return served | _AFTER_GENERATOR if generator & served else served


def refuse_unfit_heads(manifest: Manifest, model: ModelConfig, key: str) -> None:
    """Refuse a set with labels for other heads, or without the columns that a head or the family needs."""
    # permuted language modeling needs a family that hides later predictions
    columns = manifest.roles.keys()
    family = find("clozeline.model.families", model.family)
    if "prediction_order" in columns and "rank" not in family.optional:
        families = {name: find("clozeline.model.families", name) for name in names("clozeline.model.families")}
        ordered = [name for name, other in families.items() if "rank" in other.optional]
        raise ConfigurationError(
            f"{key}: prediction_order says when each position is predicted; the family {model.family} would see "
            f"the tokens that it predicts: set model.family to {' or '.join(ordered)}"
        )
    # check each head: pairs, labels of others, its own columns, a generator
    served, generator = find_targets(manifest, model), family.generator_targets
    labeled = not columns.isdisjoint({"label_positions", "prediction_order"})
    for name, target in model.targets.items():
        if model.heads[name].pool == "pair" and "segment_starts" not in columns:
            raise ConfigurationError(
                f"{key}: model.heads.{name}.pool: pair compares the two segments of a row, and the set has none: take "
                "a task of pairs in the frame bert, or another pool"
            )
        if model.heads[name].multi_label and target in served and "labels" not in columns:
            raise ConfigurationError(
                f"{key}: model.heads.{name}.multi_label: expected false, as the column label of a shard set has one "
                f"class per row, got true: {unset_head_key(model, name, 'multi_label')}"
            )
        if target not in served and "label_index" in find("clozeline.model.heads", name).needs and labeled:
            raise ConfigurationError(
                f"{key}: model.heads.{name} would learn from labels that are for {', '.join(sorted(served))}: leave "
                "the set or the head out"
            )
        if not generator and target in served and judges_generator(target, served):
            raise ConfigurationError(
                f"{key}: model.heads.{name} judges the tokens of a generator, and the family {model.family} has none; "
                "set model.family=replaced_tokens and model.generator, corrupt with replacement: uniform, unigram or "
                f"shuffle, or leave the head out: data.ignore=[{target}]"
            )
