"""Fit embedding tables to a class of transformers, by adding or removing unused rows."""

from dataclasses import replace

import torch
from torch import Tensor

from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.task_heads import fold_heads
from clozeline.extensions.published.conversion.type_selection import find_form
from clozeline.model.checkpoints.checkpoint import Checkpoint, parameter_shapes
from clozeline.model.configuration.model_config import ModelConfig


def fit_to_class(
    checkpoint: Checkpoint, model_type: str | None, *, body_alone: bool = False
) -> tuple[Checkpoint, KeyMap]:
    """Return an equivalent model that a transformers class supports, and its type's map.

    Raises:
        ConfigurationError: see `find_form`.
    """
    checkpoint = fold_heads(checkpoint)
    config, key_map = find_form(
        checkpoint.config, checkpoint.token_ids, model_type, body_alone=body_alone
    )
    return _convert_to_form(checkpoint, config), key_map


def _convert_to_form(checkpoint: Checkpoint, config: ModelConfig) -> Checkpoint:
    """Return a model with the tensors of an equivalent configuration."""
    if config == checkpoint.config:
        return checkpoint
    old_shapes = parameter_shapes(checkpoint.config, checkpoint.vocab_size)
    added_rows = config.position.offset - checkpoint.config.position.offset
    token_table = checkpoint.tensors["family.tokens.weight"]
    tensors = dict(checkpoint.tensors)

    for name, shape in parameter_shapes(config, checkpoint.vocab_size).items():
        if name not in old_shapes:
            tensors[name] = torch.zeros(shape, dtype=token_table.dtype, device=token_table.device)
        elif shape != old_shapes[name]:
            tensors[name] = _shift_table(tensors[name], added_rows)

    return replace(checkpoint, config=config, tensors=tensors)


def _shift_table(table: Tensor, added: int) -> Tensor:
    """Return a position table [rows, width] with `added` rows at its start, or fewer rows."""
    if added < 0:
        return table[-added:]
    return torch.cat([table.new_zeros(added, table.shape[1]), table])
