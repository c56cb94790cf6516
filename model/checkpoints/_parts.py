"""The models of which a checkpoint consists, each in a form of its own."""

from __future__ import annotations

from dataclasses import replace

from model.checkpoints._checkpoint import Checkpoint
from model.registry import find

__all__ = ["split"]


def split(checkpoint: Checkpoint) -> dict[str, Checkpoint]:
    """Return the models that a checkpoint holds, by name; one that cannot be divided has the empty name."""
    family = find("model.families", checkpoint.config.family)
    parts = family.parts(checkpoint.config, checkpoint.tensors)
    return {
        name: replace(checkpoint, config=config, tensors=tensors, model_type=None)
        for name, (config, tensors) in parts.items()
    } or {"": checkpoint}
