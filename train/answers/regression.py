"""Answers of a head that gives each text or pair of texts a number."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clozeline.model.configuration.head import HeadConfig
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.train.answers._answer import Record, TaskModel, array_of, finite, rounded, texts_of
from clozeline.train.answers._row_answer import RowAnswer
from clozeline.train.data.stream.head_features import HeadBatch

NO_RANGE: Final = HeadConfig().range
"""Range of a head that configures none."""


class Regression(RowAnswer):
    """A prediction is a number in the unit of the task."""

    @staticmethod
    def tensors(batch: HeadBatch) -> dict[str, Tensor]:
        """Return `target` [B] float32, NaN in rows without one."""
        targets = batch.columns["target"]
        scores = np.full(len(targets), np.nan, np.float32)
        scored = targets.lengths > 0 if isinstance(targets, Ragged) else slice(None)
        scores[scored] = targets.values if isinstance(targets, Ragged) else targets[:, 0]
        return {"target": torch.from_numpy(scores)}

    def configure(self, model: ModelConfig, name: str, where: str) -> HeadConfig:
        """Return the head with the range of the task, unless it has one."""
        head = model.heads[name]
        unset = head.output == "sigmoid" and head.range == NO_RANGE
        return replace(head, range=(self.facts.low, self.facts.high)) if unset else head

    def read(self, scores: Tensor, tensors: Mapping[str, Tensor], rows: Rows) -> Sequence[Any]:
        numbers: list[float] = finite(scores).tolist()
        return numbers

    def values(self, predicted: Mapping[int, Any]) -> NDArray[Any]:
        return array_of(predicted, np.float64)

    def answers(self, rows: Rows) -> NDArray[Any]:
        """Return the number of each row [n] float64."""
        return rows.columns["target"].values.astype(np.float64)

    def fields(self) -> dict[str, type]:
        return {"score": float}

    def record(self, prediction: Any) -> Record:
        return {"score": rounded(prediction)}

    def error(self, gold: Any, record: Record) -> float:
        """Return the distance of the numbers."""
        return abs(float(record["score"]) - float(gold))

    def is_degenerate(self, answers: NDArray[Any], values: NDArray[Any]) -> bool:
        from clozeline.train.answers._metrics import degenerate

        return degenerate(answers, values)

    def baselines(self, task: TaskModel, train: Rows, rows: Rows) -> dict[str, NDArray[Any]]:
        """Return `majority`, the mean number, and `words`."""
        from clozeline.train.answers._bag_of_words import fit_predict

        answers, texts = self.answers(train), texts_of(rows, task.tokenizer)
        words = fit_predict(texts_of(train, task.tokenizer), answers, texts, self.facts.texts)
        return {"majority": np.full(len(texts), answers.mean()), "words": words}
