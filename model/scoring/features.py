"""Token vectors from the layers of a frozen model (arXiv 1810.04805 §5.3, 1802.05365 §3.2)."""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.scoring.batches import (
    TOKENS,
    batch_tensors,
    check_lengths,
    group_by_length,
    has_prediction_order,
)

LAYERS: Final = ("table", "last", "last4_concat", "last4_sum", "scalar_mix")
"""Layers that have a name: the token table (without context), the last layer, the last four
concatenated or summed, and the mix that a head of the model has learned."""
_LAST_LAYERS: Final = 4


def token_vectors(
    model: Model, rows: Sequence[Sequence[int]], layer: str, *, tokens: int = TOKENS
) -> list[Tensor]:
    """Return the vectors of the tokens of each row, fp32 [tokens of the row, width] on the host.

    Except for rounding, a vector depends only on its row, not on other rows or on padding.

    Args:
        model: in evaluation mode; for an encoder-decoder, the encoder is read.
        rows: token ids with their special tokens, one or more each.
        layer: see `check_layer`.
        tokens: maximum number of positions of a batch, which changes only the rounding.

    Raises:
        ConfigurationError: see `check_layer`.
        BatchError: a row is longer than the position table.
    """
    check_layer(model, layer)
    check_lengths(model, rows)
    by_row = [torch.zeros(0)] * len(rows)
    device = model.family.device
    for batch in group_by_length([len(row) for row in rows], tokens):
        inputs = batch_tensors([rows[row] for row in batch], device)
        with torch.no_grad():
            vectors = _vectors(model, inputs, layer).float().cpu()
        for index, row in enumerate(batch):
            by_row[row] = vectors[index, : len(rows[row])].clone()
    return by_row


def check_layer(model: Model, layer: str) -> None:
    """Raise ConfigurationError for a model or a layer that has no token vectors.

    A layer is one of `LAYERS`, or an index: 0 the embeddings, 1 the first layer; -1 the last.
    """
    count = model.config.layers
    if model.training:
        raise ConfigurationError("features need a model in evaluation mode: call eval() first")
    if has_prediction_order(model):
        raise ConfigurationError(
            f"features need a model of entire rows, got the family {model.config.family}"
        )

    # the model must have this layer
    if layer == "scalar_mix":
        if not any(head.mix is not None for head in model.heads.values()):
            raise ConfigurationError(
                f"layer=scalar_mix: none of the heads {', '.join(model.heads)} has learned a mix"
            )
    elif layer.startswith("last4"):
        if count < _LAST_LAYERS:
            raise ConfigurationError(
                f"layer={layer}: expected a model of 4 layers or more, got {count}"
            )
    elif layer not in LAYERS:
        number = int(layer) if layer.removeprefix("-").isdecimal() else None
        if number is None or not -count - 1 <= number <= count:
            expected = f"expected {', '.join(LAYERS)}, or a number from {-count - 1} to {count}"
            raise ConfigurationError(f"layer={layer}: {expected}")


def _vectors(model: Model, tensors: dict[str, Tensor], layer: str) -> Tensor:
    """Return the vectors of all positions of a batch, [B, T, width]."""
    if layer == "table":
        return model.family.tokens(tensors["input_ids"])
    states = model.family.layer_states(tensors)
    if layer == "scalar_mix":
        return next(head.mix for head in model.heads.values() if head.mix is not None)(states)
    if layer == "last4_concat":
        return torch.cat(states[-_LAST_LAYERS:], dim=-1)
    if layer == "last4_sum":
        return torch.stack(states[-_LAST_LAYERS:]).sum(0)
    return states[-1 if layer == "last" else int(layer)]
