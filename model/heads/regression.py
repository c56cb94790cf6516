"""Prediction of a number for each row, such as the similarity of two sentences (STS-B)."""

import math
from collections.abc import Mapping
from typing import ClassVar, Final

from torch import Tensor

from clozeline.columns import LENGTHS, BatchField
from clozeline.model.heads._head import RowHead

UNSCALED: Final = (0.0, 1.0)
"""Mean and deviation of numbers that are learned as they are."""


class Regression(RowHead):
    """Squared error of one score per row; `target` is [B] float32, NaN in a row without one.

    With `output: identity`, the error is that of numbers standardized by `target_scale`, and the score is in their unit
    again. `sigmoid` maps it into `range`, and the error is that of numbers scaled to 0..1.
    """

    target: ClassVar = "regression"
    reads: ClassVar = (BatchField("target", "row", "float32", math.nan), LENGTHS)
    settings: ClassVar = RowHead.settings | {"output", "range", "target_scale", "exits"}

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        known = self._known(tensors)
        target = tensors["target"].float().masked_fill(~known, 0.0)
        score = super().scores(hidden, tensors).squeeze(-1).float()
        if self.options.output == "sigmoid":
            low, high = self.options.range
            score, target = score.sigmoid(), (target - low) / (high - low)
        elif self.options.target_scale is not None:
            mean, deviation = self.options.target_scale
            target = (target - mean) / deviation
        return ((score - target).square() * known).sum()

    def divisor(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return self._known(tensors).sum()

    def _known(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return ~tensors["target"].isnan() & (tensors["row_weight"] != 0)

    def scores(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the predicted numbers, in the unit of `target`: [B, T, dim] to [B]."""
        scores = super().scores(hidden, tensors).squeeze(-1)
        if self.options.output == "identity":
            mean, deviation = self.options.target_scale or UNSCALED
            return scores if (mean, deviation) == UNSCALED else mean + deviation * scores.float()
        low, high = self.options.range
        return low + (high - low) * scores.sigmoid()
