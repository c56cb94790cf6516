"""What a head gives: a sum and a count, never a mean.

Means of micro-batches with different numbers of labels do not average to the mean over all labels, so the division is
left to the trainer, which knows the count over every rank and micro-batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

__all__ = ["IGNORED", "Loss", "count_labels", "cross_entropy_sum", "gather_labels"]

IGNORED = -100
"""Label id without loss, as in torch's cross entropy."""


@dataclass(frozen=True)
class Loss:
    """Summed loss of one head over one micro-batch."""

    total: Tensor
    """fp32 scalar: the sum over the counted labels, in nats; it always has a gradient path to every parameter."""
    counted: Tensor | int
    """Number of labels in the sum, wherever it was computed."""

    @property
    def count(self) -> int:
        """Number of labels in the sum; reading it waits for the device where the batch lies on an accelerator."""
        return int(self.counted)


def count_labels(tensors: Mapping[str, Tensor]) -> Tensor:
    """Number of labels in rows of non-zero weight: an int64 scalar, from inputs alone."""
    return (_label_rows_weight(tensors) != 0).sum()


def gather_labels(hidden: Tensor, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Hidden states and label ids of the labelled places only, so that the vocabulary projection sees no others.

    Args:
        hidden: [B, T, dim].
        tensors: `label_index` [N] into B*T, `label_ids` [N], `row_weight` [B].

    Returns:
        states [max(N, 1), dim] and label ids [max(N, 1)], `IGNORED` in rows of weight 0. A micro-batch without labels
        gives its first state with an ignored label: loss 0, and still a gradient path through the whole head.
    """
    index, ids = tensors["label_index"], tensors["label_ids"]
    flat = hidden.flatten(0, 1)
    if not index.numel():
        return flat[:1], ids.new_full((1,), IGNORED)
    return flat.index_select(0, index), ids.masked_fill(_label_rows_weight(tensors) == 0, IGNORED)


def cross_entropy_sum(logits: Tensor, label_ids: Tensor) -> Tensor:
    """Sum over labels of -log softmax(logits)[label], computed in fp32; `IGNORED` labels add 0.

    Args:
        logits: [N, vocabulary], any floating dtype.
        label_ids: [N] int64.

    Example:
        >>> import torch
        >>> round(cross_entropy_sum(torch.zeros(2, 4), torch.tensor([3, 1])).item(), 4)  # 2 ln 4
        2.7726
    """
    return F.cross_entropy(logits.float(), label_ids, reduction="sum", ignore_index=IGNORED)


def _label_rows_weight(tensors: Mapping[str, Tensor]) -> Tensor:
    labelled = tensors.get("decoder_input_ids", tensors["input_ids"])
    return tensors["row_weight"][tensors["label_index"] // labelled.shape[1]]
