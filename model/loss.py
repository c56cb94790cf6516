"""Loss sums and their divisors: a head returns a sum and a count, never a mean.

Means of micro-batches with different numbers of labels do not average to the mean over all labels.
The trainer knows the count over every rank and micro-batch, so the trainer divides.

The loss of a head is the sum of `label_weight` x -log p(label), divided by the sum of
`label_count`. Without these tensors in a batch, every label has weight 1 and a row counts its
labels. `row_weight` multiplies both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from clozeline.columns import IGNORED
from clozeline.errors import BatchError


@dataclass(frozen=True)
class Loss:
    """The summed loss of one head over one micro-batch."""

    total: Tensor
    """fp32 scalar in nats: the weighted sum over labels, with a gradient path to every parameter"""
    divisor: Tensor | int
    """divisor of the sum, on any device"""
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    """further sums with the same divisor that are logged for the head, by name"""

    @property
    def count(self) -> int:
        """The divisor as a number; reading it waits for the accelerator if the batch is there."""
        return int(self.divisor)


class Labels(NamedTuple):
    """The labeled positions of a batch, one entry per label."""

    states: Tensor
    """hidden states [max(N, 1), dim]"""
    ids: Tensor
    """label ids [max(N, 1)], `IGNORED` in rows of weight 0"""
    weights: Tensor | None
    """fp32 [N]; None: all are 1"""

    @property
    def in_loss(self) -> Tensor:
        """Weight of each label in the loss, fp32 [max(N, 1)]; 0 for ignored labels."""
        known = (self.ids != IGNORED).float()
        return known if self.weights is None else known * self.weights


def count_labels(tensors: Mapping[str, Tensor]) -> Tensor:
    """Return the contribution of a batch to the divisor: an int64 scalar, from inputs alone.

    A row contributes its `label_count` if the batch holds that tensor, otherwise the number of its
    labels. A row without labels, or of weight 0, contributes nothing.
    """
    labels = _labels_of_rows(tensors)
    counts = tensors.get("label_count", labels).to(labels.device)
    return (counts * ((labels > 0) & (tensors["row_weight"] != 0))).sum()


def weighted_labels(tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return label ids [max(N, 1)], and the weight of each in the loss, 0 if it has none."""
    inputs = tensors.get("decoder_input_ids", tensors["input_ids"])
    labels = gather_labels(inputs[..., None], tensors)
    return labels.ids, labels.in_loss


def row_labels(tensors: Mapping[str, Tensor], name: str = "label") -> Tensor:
    """Return the labels of rows, [B] or [B, classes], `IGNORED` in rows of weight 0."""
    labels = tensors[name]
    return labels.masked_fill(
        (tensors["row_weight"] == 0).view(-1, *[1] * (labels.ndim - 1)), IGNORED
    )


def weigh_rows_equally(tensors: Mapping[str, Tensor], head: str) -> dict[str, Tensor]:
    """Weight labels so that each labeled row adds the mean over its labels and counts once.

    Raises:
        BatchError: an objective has declared weights, whose unit is the label.

    Example:
        >>> import torch
        >>> batch = {"input_ids": torch.zeros(2, 4), "row_weight": torch.ones(2)}
        >>> batch["label_index"] = torch.tensor([0, 2, 5])
        >>> batch["label_ids"] = torch.tensor([7, 8, 9])
        >>> weighted = weigh_rows_equally(batch, "masked_lm")
        >>> weighted["label_weight"].tolist(), weighted["label_count"].tolist()
        ([0.5, 0.5, 1.0], [1, 1])
    """
    if declared := sorted({"label_weight", "label_count"} & tensors.keys()):
        raise BatchError(
            f"model.heads.{head}.normalize: row needs labels of equal weight, but these shards "
            f"have {' and '.join(declared)}: set it to label, or train on objectives without "
            "weights"
        )
    labels = _labels_of_rows(tensors)
    weights = 1.0 / labels[_rows_of_labels(tensors)].clamp(min=1).float()  # 0 where all are ignored
    return {**tensors, "label_weight": weights, "label_count": (labels > 0).long()}


def gather_labels(hidden: Tensor, tensors: Mapping[str, Tensor]) -> Labels:
    """Gather the labeled positions, so that only they reach the vocabulary projection.

    A micro-batch without labels returns its first state with an ignored label: loss 0, with a
    gradient path through the entire head.

    Args:
        hidden: [B, T, dim].
        tensors: `label_index` [N] into B*T, `label_ids` [N], `row_weight` [B], and optionally
            `label_weight` [N].
    """
    index = tensors["label_index"]
    ids = tensors["label_ids"]
    flat = hidden.flatten(0, 1)
    if not index.numel():
        return Labels(flat[:1], ids.new_full((1,), IGNORED), None)
    row_weights = tensors["row_weight"][_rows_of_labels(tensors)]
    weights = tensors.get("label_weight")
    weighted = None if weights is None else weights * row_weights
    return Labels(flat.index_select(0, index), ids.masked_fill(row_weights == 0, IGNORED), weighted)


def original_ids(tensors: Mapping[str, Tensor]) -> Tensor:
    """Return `input_ids` [B, T] with each label at its position."""
    return at_labels(tensors, tensors["label_ids"])


def at_labels(tensors: Mapping[str, Tensor], ids: Tensor) -> Tensor:
    """Return `input_ids` [B, T] with `ids` [N] at the label positions, ignored labels excepted."""
    before = tensors["input_ids"]
    positions = tensors["label_index"].where(tensors["label_ids"] != IGNORED, before.numel())
    spare = F.pad(before.flatten(), (0, 1))  # ignored labels are written to one spare position
    return spare.index_copy(0, positions, ids)[:-1].view_as(before)


def real_positions(tensors: Mapping[str, Tensor]) -> Tensor:
    """Return which positions [B, T] hold tokens of rows with a weight and labels."""
    positions = torch.arange(tensors["input_ids"].shape[1], device=tensors["row_weight"].device)
    counted = (_labels_of_rows(tensors) > 0) & (tensors["row_weight"] != 0)
    lengths = tensors["lengths"].to(positions.device).expand(counted.shape)
    return (positions < lengths[:, None]) & counted[:, None]


def real_index(tensors: Mapping[str, Tensor]) -> Tensor:
    """Return the flat indices [N] of `real_positions`; the host waits for their number."""
    return real_positions(tensors).flatten().nonzero().squeeze(1)


def choice_rows(choices: Tensor) -> Tensor:
    """Return the row of each choice of each example, [E, most choices], -1 for a missing choice.

    `choices` [E] is the number of rows of each example, which follow each other: one for each
    answer of multiple choice.

    Example:
        >>> import torch
        >>> choice_rows(torch.tensor([2, 3])).tolist()
        [[0, 1, -1], [2, 3, 4]]
    """
    positions = torch.arange(int(choices.max()), device=choices.device)
    rows = (choices.cumsum(0) - choices)[:, None] + positions
    return rows.masked_fill(positions >= choices[:, None], -1)


def rows_of_examples(tensors: Mapping[str, Tensor]) -> Tensor:
    """Return `choice_rows` of a batch: as `add_host_shapes` has stored it, or computed here."""
    return tensors["choice_rows"] if "choice_rows" in tensors else choice_rows(tensors["choices"])


def cross_entropy_sum(
    logits: Tensor, label_ids: Tensor, weights: Tensor | None = None, z_loss: float = 0.0
) -> Tensor:
    """Return the sum of weight x -log softmax(logits)[label] in fp32; `IGNORED` labels add 0.

    Args:
        logits: [N, vocabulary], any floating dtype.
        label_ids: [N] int64.
        weights: [N] fp32; None: all are 1.
        z_loss: factor of log² Z, with Z the sum of exp(logits), which each label adds (arXiv
            2204.02311).

    Example:
        >>> import torch
        >>> round(cross_entropy_sum(torch.zeros(2, 4), torch.tensor([3, 1])).item(), 4)  # 2 ln 4
        2.7726
        >>> weights = torch.tensor([2.0, 0.5])
        >>> loss = cross_entropy_sum(torch.zeros(2, 4), torch.tensor([3, 1]), weights)
        >>> round(loss.item(), 4)
        3.4657
    """
    if z_loss:
        logs = Labels(logits, label_ids, weights).in_loss * logits.float().logsumexp(-1).square()
        return cross_entropy_sum(logits, label_ids, weights) + z_loss * logs.sum()
    if weights is None:
        return F.cross_entropy(logits.float(), label_ids, reduction="sum", ignore_index=IGNORED)
    return (
        F.cross_entropy(logits.float(), label_ids, reduction="none", ignore_index=IGNORED) * weights
    ).sum()


def cross_entropy_sum_in_chunks(
    scores: Callable[[Tensor], Tensor], labels: Labels, chunk: int | None, z_loss: float = 0.0
) -> Tensor:
    """Return `cross_entropy_sum` of the labels' scores, holding one chunk of scores in memory.

    The backward pass computes the scores [n, vocabulary] of each chunk again: a third more
    arithmetic for less memory.
    """

    def loss(states: Tensor, ids: Tensor, weights: Tensor | None) -> Tensor:
        return cross_entropy_sum(scores(states), ids, weights, z_loss)

    if chunk is None or len(labels.ids) <= chunk:
        return loss(*labels)
    weights = repeat(None) if labels.weights is None else torch.split(labels.weights, chunk)
    parts = zip(
        torch.split(labels.states, chunk), torch.split(labels.ids, chunk), weights, strict=False
    )
    return torch.stack([checkpoint(loss, *part, use_reentrant=False) for part in parts]).sum()


def _rows_of_labels(tensors: Mapping[str, Tensor]) -> Tensor:
    """Return the row of each label, [N]."""
    return tensors["label_index"] // tensors.get("decoder_input_ids", tensors["input_ids"]).shape[1]


def _labels_of_rows(tensors: Mapping[str, Tensor]) -> Tensor:
    """Return the number of labels of each row, [B], without ignored labels."""
    rows = _rows_of_labels(tensors)
    labels = tensors["label_ids"] != IGNORED
    return rows.new_zeros(len(tensors["row_weight"])).index_add_(0, rows, labels.to(rows.dtype))
