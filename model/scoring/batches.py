"""Group rows of similar length into batches, and compute the log-probabilities of tokens."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from clozeline.columns import RANK
from clozeline.errors import BatchError, ConfigurationError
from clozeline.model.build import Model
from clozeline.model.heads import Head

TOKENS = 2048
"""Default number of positions of a batch, with padding: their states fit a core's cache"""
_SCORES_IN_MEMORY = {"cpu": 1 << 21}
"""Number of scores in memory at a time, by type of device: they fit the cache of a CPU"""
_DEFAULT_SCORES_IN_MEMORY = 1 << 25
"""Number of scores in memory at a time on any other device"""


def group_by_length(lengths: Sequence[int], tokens: int = TOKENS) -> Iterator[list[int]]:
    """Yield indices of rows, shorter ones first, in batches of at most `tokens` positions.

    A longer row is a batch by itself.

    Where many rows have the same length, they fill separate batches, so that few batches have
    padding.

    Example:
        >>> list(group_by_length([3, 1, 3, 9, 1], tokens=6))
        [[1, 4], [0, 2], [3]]
    """
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch:
            is_full = (len(batch) + 1) * lengths[row] > tokens
            is_longer = lengths[row] != lengths[batch[0]]
            if is_full or (is_longer and 4 * len(batch) * lengths[batch[0]] >= tokens):
                yield batch
                batch = []
        batch.append(row)
    if batch:
        yield batch


def batch_tensors(rows: Sequence[Sequence[int]], device: torch.device) -> dict[str, Tensor]:
    """Return the inputs of a family for rows padded on the right.

    `lengths` is [] if no row is padded.
    """
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
    """Raise BatchError if a row is longer than the position table."""
    limit = model.position_limit
    for number, row in enumerate(rows):
        if limit is not None and len(row) > limit:
            raise BatchError(
                f"text {number}: it has {len(row)} tokens, but the position table holds {limit}: "
                "shorten it"
            )


def has_prediction_order(model: Model) -> bool:
    """Return whether the family predicts tokens in an order that a batch must give (XLNet)."""
    return RANK in (*model.family.reads, *model.family.optional)


def find_head(model: Model, target: str, purpose: str) -> tuple[str, Head]:
    """Return the first head that predicts `target`, after its name.

    `purpose` starts the message of an error.

    Raises:
        ConfigurationError: the model is in training mode, or has no such head.
    """
    if model.training:
        raise ConfigurationError(f"{purpose} need a model in evaluation mode: call eval() first")
    for name, head in model.heads.items():
        if head.target == target:
            return name, head
    raise ConfigurationError(
        f"{purpose} need a head of {target}; this model has {', '.join(model.heads)}"
    )


def log_probabilities(head: Head, states: Tensor, tokens: Tensor, vocabulary: int) -> Tensor:
    """Return the natural log-probability of each token [n] at its state [n, dim], in fp64.

    Scores are fp32 over the entire vocabulary, and only some of them are in memory at a time.
    """
    parts = []
    chunk = max(
        1, _SCORES_IN_MEMORY.get(states.device.type, _DEFAULT_SCORES_IN_MEMORY) // vocabulary
    )
    for first in range(0, len(tokens), chunk):
        scores = head.logits(states[first : first + chunk]).float()
        parts.append(
            -F.cross_entropy(scores, tokens[first : first + chunk], reduction="none").double().cpu()
        )
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)
