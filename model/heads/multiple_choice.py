"""Choice among several texts, such as endings of a story (SWAG, arXiv 1808.05326)."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from clozeline.columns import CHOICES, IGNORED, LENGTHS, BatchField
from clozeline.model.heads._head import RowHead
from clozeline.model.loss import cross_entropy_sum, row_labels, rows_of_examples


class MultipleChoiceHead(RowHead):
    """Cross entropy over the choices of an example; each choice is a row with one score.

    The rows [N, T] of `input_ids` are those of the first example in order, then those of the
    second, and so on. `choices` [B] is the number of rows of each example; `label` [B] is the
    index of the correct choice, -100 for none; `row_weight` is [B].

    Example (2 choices and 3):
        rows      a0 a1 b0 b1 b2
        scores    [[a0, a1, -inf], [b0, b1, b2]]
    """

    target: ClassVar = "multiple_choice"
    label = "label"
    figures: ClassVar = {"accuracy": "higher"}
    class_ending: ClassVar = "ForMultipleChoice"
    reads: ClassVar = (
        BatchField("label", "row", filler=IGNORED, below="choices"),
        CHOICES,
        LENGTHS,
    )

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        return cross_entropy_sum(self.scores(hidden, tensors), row_labels(tensors))

    def scores(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the scores of choices, [N, T, dim] to [B, most choices], -inf where missing."""
        scores = super().scores(hidden, tensors).squeeze(-1)
        rows = rows_of_examples(tensors).to(scores.device)
        return scores[rows.clamp(min=0)].masked_fill(rows < 0, -torch.inf)

    def join(self, vectors: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        return vectors

    def metrics(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the number of examples whose correct choice has the highest score."""
        return {"accuracy": (self.scores(hidden, tensors).argmax(-1) == row_labels(tensors)).sum()}
