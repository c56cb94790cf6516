"""Fit the embedding tables of a model to a class of transformers: rows that no token reads come, or go."""

from dataclasses import replace

import torch
from torch import Tensor

from clozeline.model.checkpoints._conversion.checkpoint import Checkpoint
from clozeline.model.checkpoints._conversion.key_map import KeyMap
from clozeline.model.checkpoints._conversion.tensor_layouts import parameter_shapes
from clozeline.model.checkpoints._conversion.type_selection import find_form
from clozeline.model.configuration.model_config import ModelConfig


def fit_to_class(
    checkpoint: Checkpoint, model_type: str | None, *, body_alone: bool = False
) -> tuple[Checkpoint, KeyMap]:
    """Return a model in the form of `find_form`, which computes the same, exactly, and the map of the type.

    Raises:
        ConfigurationError: see `find_form`.
    """
    config, key_map = find_form(
        checkpoint.config, checkpoint.token_ids, model_type, body_alone=body_alone
    )
    return _in_form(checkpoint, config), key_map


def _in_form(checkpoint: Checkpoint, config: ModelConfig) -> Checkpoint:
    """Return a model in one of its equal forms."""
    if config == checkpoint.config:
        return checkpoint
    before = parameter_shapes(checkpoint.config, checkpoint.vocab_size)
    added = config.position.offset - checkpoint.config.position.offset
    like = checkpoint.tensors["family.tokens.weight"]
    tensors = dict(checkpoint.tensors)
    for name, shape in parameter_shapes(config, checkpoint.vocab_size).items():
        if name not in before:
            tensors[name] = torch.zeros(shape, dtype=like.dtype, device=like.device)
        elif shape != before[name]:
            tensors[name] = _shifted(tensors[name], added)
    return replace(checkpoint, config=config, tensors=tensors)


def _shifted(table: Tensor, added: int) -> Tensor:
    """Return a position table [rows, width] with so many more rows at its start, or fewer."""
    if added < 0:
        return table[-added:]
    return torch.cat([table.new_zeros(added, table.shape[1]), table])
