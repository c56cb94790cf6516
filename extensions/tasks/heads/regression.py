"""Prediction of a number for each row, such as the similarity of two sentences (STS-B)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

import numpy as np
from torch import Tensor

from clozeline.columns import LENGTHS
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.rows.regression import TARGET
from clozeline.extensions.tasks.task_heads._numbers import NumberTaskHead
from clozeline.extensions.tasks.task_heads._task_head import (
    finite,
)
from clozeline.model.configuration.head import HeadOptions, SingleAnswerOptions
from clozeline.model.configuration.key_types import UNIT_RANGE, refuse_empty_range
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._head import RowHead
from clozeline.pipeline.rows import RowBatch

UNSCALED: Final = (0.0, 1.0)
"""Mean and standard deviation of targets that are learned without scaling."""


class RegressionHead(RowHead):
    """Squared error of one score per row; `target` is [B] float32, NaN in a row without target.

    `output: identity` learns targets standardized by `target_scale`, and returns scores in the
    original unit. `output: sigmoid` maps scores into `range`, and the error is that of numbers
    scaled to 0..1.
    """

    target: ClassVar = "regression"
    reads: ClassVar = (*TARGET.fields, LENGTHS)

    @config_class
    class Options(SingleAnswerOptions):
        """Keys of the regression head."""

        output: Literal["identity", "sigmoid"] = "identity"
        """identity predicts the number itself; sigmoid maps the score into `range`."""
        range: tuple[float, float] = UNIT_RANGE
        """Lowest and highest number that `output: sigmoid` predicts."""
        target_scale: tuple[float, float] | None = None
        """With `output: identity`: mean and standard deviation of the targets. The head learns
        (target - mean) / deviation, and predicts the target. null = those of the training rows;
        without a bias, 0 and the root mean square. [0, 1] learns targets without scaling."""

        def __post_init__(self) -> None:
            super().__post_init__()

            if self.range != UNIT_RANGE and self.output == "identity":
                raise ValueError(
                    "range: has no effect without output sigmoid: set output, or remove range"
                )

            refuse_empty_range(self.range)

            if self.target_scale is None:
                return
            if self.output == "sigmoid":
                raise ValueError(
                    "target_scale: has no effect with output sigmoid, which uses range: remove "
                    "target_scale"
                )

            if self.target_scale[0] and not self.bias:
                raise ValueError(
                    "target_scale: without a bias the head cannot learn a mean: set the mean to 0, "
                    "or set bias: true"
                )

            if self.target_scale[1] <= 0:
                raise ValueError(
                    "target_scale: expected a standard deviation above 0, got "
                    f"{self.target_scale[1]:g}"
                )

        @property
        def class_count(self) -> int:
            return 1

        @property
        def problem_type(self) -> str | None:
            return "regression"

    class_ending: ClassVar = "ForSequenceClassification"
    options: Options

    @classmethod
    def keys_of_class(
        cls, read_labels: Callable[[], tuple[str, ...]], problem: str | None
    ) -> dict[str, Any] | None:
        if (count := len(read_labels())) == 1 and problem in (None, "regression"):
            return {}
        if problem == "regression":
            raise ConfigurationError(
                f"config.json: problem_type: regression of {count} numbers at once is not supported"
            )
        return None

    @classmethod
    def in_class(
        cls, options: Any, tensors: Mapping[str, Tensor], place: str
    ) -> tuple[HeadOptions, dict[str, Tensor]]:
        """Move the scale of targets into the last map."""
        if options.target_scale is None:
            return options, {}
        mean, deviation = options.target_scale
        changed = {}
        for leaf, offset in (("weight", 0.0), ("bias", mean)):
            name = f"{place}classifier.out.{leaf}"
            if (tensor := tensors.get(name)) is not None:
                changed[name] = (tensor.float() * deviation + offset).to(tensor.dtype)
        return replace(options, target_scale=None), changed

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        known = self._known(tensors)
        target = tensors["target"].float().masked_fill(~known, 0.0)
        score = super().scores(hidden, tensors).squeeze(-1).float()
        if self.options.output == "sigmoid":
            low, high = self.options.range
            score = score.sigmoid()
            target = (target - low) / (high - low)
        elif self.options.target_scale is not None:
            mean, deviation = self.options.target_scale
            target = (target - mean) / deviation
        return ((score - target).square() * known).sum()

    def divisor(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return self._known(tensors).sum()

    def _known(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return ~tensors["target"].isnan() & (tensors["row_weight"] != 0)

    def scores(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the predicted numbers in the unit of `target`: [B, T, dim] to [B]."""
        scores = super().scores(hidden, tensors).squeeze(-1)
        if self.options.output == "identity":
            mean, deviation = self.options.target_scale or UNSCALED
            return scores if (mean, deviation) == UNSCALED else mean + deviation * scores.float()
        low, high = self.options.range
        return low + (high - low) * scores.sigmoid()


class RegressionTaskHead(NumberTaskHead):
    """Predicts a number in the unit of the task."""

    of_head = "regression"

    def configure(self, model: ModelConfig, name: str, where: str) -> HeadOptions:
        """Return the head with the range of the task, unless it has one."""
        head = model.heads[name]
        if not isinstance(head, RegressionHead.Options):
            return head
        unset = head.output == "sigmoid" and head.range == UNIT_RANGE
        return replace(head, range=(self.metadata.low, self.metadata.high)) if unset else head

    def fit(self, head: HeadOptions, training: Iterable[RowBatch]) -> HeadOptions:
        """Return the head with mean and deviation of the training numbers, if it needs them."""
        if (
            not isinstance(head, RegressionHead.Options)
            or head.output != "identity"
            or head.target_scale is not None
        ):
            return head

        numbers = np.concatenate([self.answers(rows) for rows in training])
        numbers = numbers[np.isfinite(numbers)]
        if not len(numbers) or np.ptp(numbers) == 0:
            return head
        mean = float(numbers.mean()) if head.bias else 0.0  # an exported class has it in its bias
        return replace(head, target_scale=(mean, float(np.sqrt(np.square(numbers - mean).mean()))))

    def read(
        self, scores: Tensor, tensors: Mapping[str, Tensor], rows: RowBatch
    ) -> Sequence[object]:
        numbers: list[float] = finite(scores).tolist()
        return numbers
