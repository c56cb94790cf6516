"""Split a checkpoint into its models, or keep some of its heads."""

from collections.abc import Collection
from dataclasses import replace

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints._conversion.checkpoint import Checkpoint
from clozeline.registry import find


def split(checkpoint: Checkpoint) -> dict[str, Checkpoint]:
    """Return the models in a checkpoint, by name; one that cannot be split has the empty name."""
    family = find("clozeline.model.families", checkpoint.config.family)
    parts = family.parts(checkpoint.config, checkpoint.tensors).items()
    own = {name: replace(checkpoint, config=c, tensors=tensors, model_type=None) for name, (c, tensors) in parts}
    return own or {"": checkpoint}


def with_heads(checkpoint: Checkpoint, heads: Collection[str]) -> Checkpoint:
    """Return a model with only some of its heads."""
    config = checkpoint.config
    if unknown := [name for name in heads if name not in config.heads]:
        raise ConfigurationError(f"heads: expected some of {', '.join(config.heads)}, got {', '.join(unknown)}")
    removed = tuple(f"heads.{name}." for name in config.heads if name not in heads)
    return replace(
        checkpoint,
        config=replace(config, heads={name: config.heads[name] for name in heads}),
        tensors={name: tensor for name, tensor in checkpoint.tensors.items() if not name.startswith(removed)},
        absent=tuple(name for name in checkpoint.absent if not name.startswith(removed)),
    )
