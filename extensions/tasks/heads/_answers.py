"""Extract the best answer span of a row, or decide that there is none (arXiv 1810.04805 §4.2)."""

from typing import NamedTuple

import torch
from torch import Tensor


class Answers(NamedTuple):
    """The best answer in each row, and the score for having no answer."""

    score: Tensor
    """[B], sum of the scores of both ends; -inf in a row where no answer is possible"""
    first: Tensor
    """[B], first position of the best answer"""
    last: Tensor
    """[B], last position of the best answer"""
    null: Tensor
    """[B], sum of both scores at the position that means no answer"""

    def of_question(self, threshold: float = 0.0) -> tuple[int, int, int] | None:
        """Return row, first and last position of a question's answer; None: it has no answer.

        The rows are the windows of one question. It has no answer if the lowest `null` of all
        windows exceeds the score of the best span by more than `threshold`.
        """
        row = int(self.score.argmax())
        if bool(self.null.min() - self.score[row] > threshold):
            return None
        return row, int(self.first[row]), int(self.last[row])


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


def read_answers(
    scores: Tensor, allowed: Tensor, null: Tensor, longest: int | None = None
) -> Answers:
    """Return the best answer of each window, and the score for having no answer.

    Args:
        scores: [B, T, 2], the output of a span head.
        allowed: [B, T] bool, positions where an answer may start or end; the null position is
            excluded.
        null: [B], the position that means no answer, [CLS].
        longest: maximum number of tokens of an answer; None: no limit.
    """
    rows = torch.arange(len(scores), device=scores.device)
    in_text = allowed.index_put((rows, null), torch.tensor(False, device=scores.device))
    starts, ends = scores.float().masked_fill(~in_text[..., None], -torch.inf).unbind(-1)
    return Answers(*best_spans(starts, ends, longest), scores[rows, null].float().sum(-1))
