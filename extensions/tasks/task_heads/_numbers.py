"""Answers that are numbers: they are stored, written and scored alike for all heads."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.extensions.tasks.task_heads._metrics import NUMBER_METRICS, degenerate
from clozeline.extensions.tasks.task_heads._task_head import (
    Judged,
    Metric,
    Record,
    RowTaskHead,
    array_of,
    rounded,
)
from clozeline.pipeline.rows import RowBatch


class NumberTaskHead(RowTaskHead):
    """Predicts a number for each row."""

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return NUMBER_METRICS

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
