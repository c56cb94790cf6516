"""Compute the key of a stage: an output with another key was made by another configuration."""

from typing import Any

from clozeline.configuration.config import config_digest, to_plain
from clozeline.pipeline.execution.stages import Stage


def stage_key(stage: Stage[Any, Any], upstream: str) -> str:
    """Return the digest of what determines a stage's output: its key, shared keys, and all earlier stages."""
    plain = to_plain(stage.recipe)
    facts = {
        "stage": stage.name,
        "config": plain[stage.name],
        "shared": {name: plain[name] for name in stage.shared},
        "limit": stage.recipe.limit,
        "files": dict(stage.files()),
        "upstream": upstream,
        "version": stage.version(),
    }
    return config_digest(facts)
