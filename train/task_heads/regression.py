"""Predict a number for each text or pair of texts, and score the numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clozeline.model.configuration.head import HeadOptions
from clozeline.model.configuration.key_types import UNIT_RANGE
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads.regression import RegressionHead
from clozeline.pipeline.rows import RowBatch
from clozeline.train.task_heads._metrics import NUMBER_METRICS, degenerate
from clozeline.train.task_heads._task_head import (
    Judged,
    Metric,
    Record,
    RowTaskHead,
    array_of,
    finite,
    rounded,
)


class RegressionTaskHead(RowTaskHead):
    """Predicts a number in the unit of the task."""

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return NUMBER_METRICS

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

    def values(self, predicted: Mapping[int, Any]) -> NDArray[Any]:
        return array_of(predicted, np.float64)

    def answers(self, rows: RowBatch) -> NDArray[Any]:
        """Return the number of each row [n] float64."""
        return rows.columns["target"].values.astype(np.float64)

    def fields(self) -> dict[str, type]:
        return {"score": float}

    def record(self, prediction: Any) -> Record:
        return {"score": rounded(prediction)}

    def error(self, gold: Any, record: Record) -> float:
        """Return the distance of the numbers."""
        return abs(float(record["score"]) - float(gold))

    def remarks(self, judged: Judged, names: Sequence[str]) -> dict[str, Any]:
        return {"degenerate": degenerate(judged.gold, judged.guesses)}

    def majority(self, answers: NDArray[Any]) -> Any:
        return answers.mean()
