"""Compute the keys of stages and units: an output with another key was made by another configuration."""

from collections.abc import Sequence
from typing import Any

from clozeline.configuration.config import config_digest, to_plain
from clozeline.pipeline.execution.forgotten import Forgotten
from clozeline.pipeline.execution.plan import PLAN_STAGE, Plan
from clozeline.pipeline.execution.stage_order import stage_of
from clozeline.pipeline.execution.stages import Stage
from clozeline.pipeline.recipe import Recipe


def stage_key(stage: Stage[Any, Any], upstream: str) -> str:
    """Return the digest of what determines a stage's output: its key, shared keys, and all earlier stages."""
    plain = to_plain(stage.recipe)
    shared = {name: plain[name] for name in stage.shared}
    config = plain[stage.name]
    for key in stage.added:
        if not config[key]:
            del config[key]
    facts = {"stage": stage.name, "config": config, "shared": shared}
    if stage.recipe.limit is not None:  # absent without a limit, as in the digests of older runs
        facts["limit"] = stage.recipe.limit
    if files := stage.files():
        facts["files"] = files
    if kept := stage.kept_values():
        facts["kept"] = kept
    return config_digest({**facts, "upstream": upstream, "version": stage.version()})


def unit_keys(recipe: Recipe, plan: Plan, key: str) -> Sequence[str]:
    """Return the keys of the units of `clean`: earlier generations keep theirs, others forget documents."""
    forgotten = Forgotten.load(recipe.output_folder)
    keys: list[str] = []
    for number, generation in enumerate(plan.generations[:-1]):
        before = plan.until(number)
        keys += [stage_key(stage_of(recipe, PLAN_STAGE, before), before.digest)] * (generation.units - len(keys))
    keys += [key] * (len(plan.units) - len(keys))
    for unit, hashes in forgotten.units.items():
        if unit < len(keys):
            keys[unit] = config_digest({"key": keys[unit], "forgotten": hashes})
    return keys
