"""The best span of a row, and the choice between it and no answer (arXiv 1810.04805 §4.2-4.3)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Answers(NamedTuple):
    """The best answer in each row, and the score of none."""

    score: Tensor
    """[B], sum of both ends' scores; -inf in a row where no answer can be"""
    first: Tensor
    """[B], its first place"""
    last: Tensor
    """[B], its last place"""
    null: Tensor
    """[B], sum of both scores of the place that means no answer"""

    def of_question(self, threshold: float = 0.0) -> tuple[int, int, int] | None:
        """Return row, first and last place of the answer; None: no answer.

        The rows are the windows of one question. No answer is the lowest score of any window; it wins where it exceeds
        the best span by more than `threshold`.
        """
        row = int(self.score.argmax())
        if bool(self.null.min() - self.score[row] > threshold):
            return None
        return row, int(self.first[row]), int(self.last[row])


def best_spans(starts: Tensor, ends: Tensor, longest: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the score, first and last place [B] of the span with the highest starts[first] + ends[last].

    Of equal ones it is that with the earlier end, then the shorter one. Linear in T, times `longest` where it is given.

    Args:
        starts: [B, T], -inf where no span begins.
        ends: [B, T], -inf where none ends.
        longest: most places of a span; None: any number.

    Example:
        >>> starts, ends = torch.tensor([[1.0, 5.0, 2.0]]), torch.tensor([[9.0, 0.0, 3.0]])
        >>> [int(found) for found in best_spans(starts, ends)], [int(found) for found in best_spans(starts, ends, 1)]
        ([10, 0, 0], [10, 0, 0])
    """
    columns = starts.shape[1]
    places = torch.arange(columns, device=starts.device)
    if longest is None or longest >= columns:
        highest, first = starts.cummax(1)
    else:
        highest, first = starts, places.expand_as(starts)
        for length in range(1, longest):
            earlier = starts.roll(length, dims=1).masked_fill(places < length, -torch.inf)
            first = torch.where(earlier > highest, places - length, first)
            highest = torch.maximum(highest, earlier)
    last = (highest + ends).argmax(1, keepdim=True)
    return (highest + ends).gather(1, last)[:, 0], first.gather(1, last)[:, 0], last[:, 0]


def read_answers(scores: Tensor, allowed: Tensor, null: Tensor, longest: int | None = None) -> Answers:
    """Return the best answers of windows, and their scores of no answer.

    Args:
        scores: [B, T, 2] of the head span.
        allowed: [B, T] bool, places where an answer may begin or end; the null place counts as none of them.
        null: [B], the place that means no answer, [CLS].
        longest: most tokens of an answer; None: any number.
    """
    rows = torch.arange(len(scores), device=scores.device)
    text = allowed.index_put((rows, null), torch.tensor(False, device=scores.device))
    starts, ends = scores.float().masked_fill(~text[..., None], -torch.inf).unbind(-1)
    return Answers(*best_spans(starts, ends, longest), scores[rows, null].float().sum(-1))
