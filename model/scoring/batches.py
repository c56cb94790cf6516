"""Group rows of similar length into batches, and compute the probabilities that a head gives to tokens."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from clozeline.columns import RANK
from clozeline.errors import BatchError, ConfigurationError
from clozeline.model.build import Model
from clozeline.model.heads import Head

TOKENS = 2048
"""positions of a batch, padding included: the states of a small model stay in a core's cache"""
_SCORES = {"cpu": 1 << 21}
"""scores held at a time, by device type: few enough for the cache of a processor"""
_MORE_SCORES = 1 << 25
"""the same on any other device"""


def group_by_length(lengths: Sequence[int], tokens: int = TOKENS) -> Iterator[list[int]]:
    """Yield indices of rows, shorter ones first, in batches of at most `tokens` positions, or of one longer row.

    Rows of equal length fill batches of their own where there are many, so that few batches have
    padding.

    Example:
        >>> list(group_by_length([3, 1, 3, 9, 1], tokens=6))
        [[1, 4], [0, 2], [3]]
    """
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch:
            full = (len(batch) + 1) * lengths[row] > tokens
            if full or (
                4 * len(batch) * lengths[batch[0]] >= tokens and lengths[row] != lengths[batch[0]]
            ):
                yield batch
                batch = []
        batch.append(row)
    if batch:
        yield batch


def batch_tensors(rows: Sequence[Sequence[int]], device: torch.device) -> dict[str, Tensor]:
    """Return the inputs of a family for rows padded on the right; `lengths` is [] where none is padded."""
    lengths = torch.tensor([len(row) for row in rows])
    padded = [torch.tensor(list(row), dtype=torch.int64) for row in rows]
    ids = torch.nn.utils.rnn.pad_sequence(padded, batch_first=True)
    unpadded = bool((lengths == ids.shape[1]).all())
    return {
        "input_ids": ids.to(device),
        "position_ids": torch.arange(ids.shape[1], device=device)[None],
        "lengths": lengths[0] if unpadded else lengths.to(device),
    }


def check_lengths(model: Model, rows: Sequence[Sequence[int]]) -> None:
    """Raise a BatchError if a row is longer than the position table."""
    limit = model.position_limit
    for number, row in enumerate(rows):
        if limit is not None and len(row) > limit:
            raise BatchError(
                f"text {number}: {len(row)} tokens, the position table has room for {limit}: give "
                "a shorter one"
            )


def has_prediction_order(model: Model) -> bool:
    """Return whether the family predicts in an order (arXiv 1906.08237), which plain rows do not have."""
    return RANK in (*model.family.reads, *model.family.optional)


def head_of(model: Model, target: str, purpose: str) -> tuple[str, Head]:
    """Return the name of the head with a target, and the head; refuse a model in training mode or without one."""
    if model.training:
        raise ConfigurationError(f"{purpose} need a model in evaluation mode, call eval() first")
    for name, head in model.heads.items():
        if head.target == target:
            return name, head
    raise ConfigurationError(
        f"{purpose} need a head of {target}, the model has {', '.join(model.heads)}"
    )


def log_probabilities(head: Head, states: Tensor, tokens: Tensor, vocabulary: int) -> Tensor:
    """Return the natural log-probability of each token [n] at its state [n, dim], fp64 on the host.

    Scores are fp32 over the entire vocabulary; only some of them are held in memory at a time.
    """
    parts = []
    room = max(1, _SCORES.get(states.device.type, _MORE_SCORES) // vocabulary)
    for first in range(0, len(tokens), room):
        scores = head.logits(states[first : first + room]).float()
        parts.append(
            -F.cross_entropy(scores, tokens[first : first + room], reduction="none").double().cpu()
        )
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)
