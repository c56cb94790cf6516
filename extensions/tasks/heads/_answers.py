"""Find the best answer span of a row (arXiv 1810.04805 §4.2)."""

import torch
from torch import Tensor


def best_spans(
    starts: Tensor, ends: Tensor, longest: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return score, first and last position [B] of the best span: starts[first] + ends[last].

    Ties go to the earlier end, then to the shorter span. Time is linear in T, and in `longest`.

    Args:
        starts: [B, T], -inf where no span starts.
        ends: [B, T], -inf where no span ends.
        longest: maximum length of a span; None: no limit.

    Example:
        >>> starts, ends = torch.tensor([[1.0, 5.0, 2.0]]), torch.tensor([[9.0, 0.0, 3.0]])
        >>> [int(part) for part in best_spans(starts, ends)]
        [10, 0, 0]
        >>> [int(part) for part in best_spans(starts, ends, longest=1)]
        [10, 0, 0]
    """
    # highest [B, T]: the best score of a start at or before each position, at `first` [B, T]
    columns = starts.shape[1]
    positions = torch.arange(columns, device=starts.device)

    if longest is None or longest >= columns:
        highest, first = starts.cummax(1)
    else:
        highest = starts
        first = positions.expand_as(starts)
        for shift in range(1, longest):
            earlier = starts.roll(shift, dims=1).masked_fill(positions < shift, -torch.inf)
            first = torch.where(earlier > highest, positions - shift, first)
            highest = torch.maximum(highest, earlier)

    last = (highest + ends).argmax(1, keepdim=True)
    return (highest + ends).gather(1, last)[:, 0], first.gather(1, last)[:, 0], last[:, 0]
