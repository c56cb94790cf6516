"""Batches for models of Hugging Face: labels at every position, -100 where there is no loss."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from model.loss import IGNORED

__all__ = ["dense_labels"]


def dense_labels(tensors: Mapping[str, Tensor], *, next_token: bool = False) -> dict[str, Tensor]:
    """Return the inputs of a model of Hugging Face; filler rows have no labels.

    Args:
        tensors: of a `Batch`.
        next_token: whether the model itself shifts labels, as causal ones do: a label is at its own token then, not at
            the token that predicts it.

    Returns:
        `input_ids`, `attention_mask` and `labels`, int64 [B, T]; for an encoder-decoder also `decoder_input_ids`, with
        `labels` as long as they are.

    Example, label 7 at position 1 of the only row of three tokens:
        label_index [1], label_ids [7]    labels [-100, 7, -100]
    """
    ids = tensors["input_ids"].long()
    inputs = {"input_ids": ids, "attention_mask": _mask(tensors["lengths"], ids)}
    labelled = ids
    if "decoder_input_ids" in tensors:
        labelled = inputs["decoder_input_ids"] = tensors["decoder_input_ids"]
    labels = torch.full_like(labelled, IGNORED)
    labels.view(-1)[tensors["label_index"] + int(next_token)] = tensors["label_ids"]
    labels[tensors["row_weight"] == 0] = IGNORED
    return inputs | {"labels": labels}


def _mask(lengths: Tensor, ids: Tensor) -> Tensor:
    """Return 1 for tokens and 0 for pads."""
    return (torch.arange(ids.shape[1]) < lengths[:, None]).long()
