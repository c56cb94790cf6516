"""Answers of a head that gives a text or a pair of texts one class, or any number of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clozeline.model.configuration.head import HeadOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads.classification import ClassificationHead
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.tasks.readers import TaskMetadata
from clozeline.train.task_heads._metrics import CLASS_METRICS, SEVERAL_METRICS
from clozeline.train.task_heads._task_head import (
    Metric,
    Record,
    RowTaskHead,
    array_of,
    finite,
    rounded,
)


class ClassificationTaskHead(RowTaskHead):
    """Predicts the probabilities of all classes: a row has the highest, or all above one half."""

    pseudo_labels = True

    def __init__(self, metadata: TaskMetadata) -> None:
        super().__init__(metadata)
        if metadata.multi_label:  # GLUE has no such task
            self.layout = None

    def configure(self, model: ModelConfig, name: str, where: str) -> HeadOptions:
        """Return the head with the classes of the task, and whether a row has several."""
        head = super().configure(model, name, where)
        # of a head with several and a set with one, `refuse_unfit_heads` tells
        if isinstance(head, ClassificationHead.Options) and self.metadata.multi_label:
            return replace(head, multi_label=True)
        return head

    def read(
        self, scores: Tensor, tensors: Mapping[str, Tensor], rows: RowBatch
    ) -> Sequence[object]:
        """Return the probabilities of the classes of each row."""
        several = self.metadata.multi_label
        return [(row.sigmoid() if several else row.softmax(-1)).tolist() for row in finite(scores)]

    def values(self, predicted: Mapping[int, Any]) -> NDArray[Any]:
        chances = array_of(predicted, np.float32)
        return (chances > 0.5).astype(np.int64) if self.metadata.multi_label else chances.argmax(-1)

    def answers(self, rows: RowBatch) -> NDArray[Any]:
        """Return the class of each row [n], or 0 and 1 for several classes [n, classes], int64."""
        if self.metadata.multi_label:
            return (
                rows.columns["labels"]
                .values.astype(np.int64)
                .reshape(len(rows), len(self.metadata.labels))
            )
        return rows.columns["label"].values.astype(np.int64)

    def fields(self) -> dict[str, type]:
        own: dict[str, type] = (
            {"labels": list[str]}
            if self.metadata.multi_label
            else {"label": str, "probability": float}
        )
        return own | {f"probability_{name}": float for name in self.metadata.labels}

    def record(self, prediction: Any) -> Record:
        """Return the most probable class, or each class above one half, and all probabilities."""
        labels = self.metadata.labels
        by_name = dict(zip(labels, map(rounded, prediction), strict=True))
        if self.metadata.multi_label:
            chosen = [name for name, chance in zip(labels, prediction, strict=True) if chance > 0.5]
            return {"labels": chosen, "probabilities": by_name}
        best = labels[prediction.index(max(prediction))]
        return {"label": best, "probability": by_name[best], "probabilities": by_name}

    def certain_class(self, prediction: Any) -> tuple[int | tuple[int, ...], float]:
        if self.metadata.multi_label:
            chosen = [index for index, chance in enumerate(prediction) if chance > 0.5]
            return tuple(chosen), min(max(chance, 1 - chance) for chance in prediction)
        return prediction.index(max(prediction)), max(prediction)

    def show(self, answer: Any) -> Any:
        if self.metadata.multi_label:
            return [name for name, has in zip(self.metadata.labels, answer, strict=True) if has]
        return self.metadata.labels[answer]

    def error(self, gold: Any, record: Record) -> float:
        """Return one minus the probability of a wrong class, or the largest of these numbers."""
        if self.metadata.multi_label:
            return float(
                max(1 - p if name in gold else p for name, p in record["probabilities"].items())
            )
        return 0.0 if record["label"] == gold else 1 - float(record["probabilities"][gold])

    def classes(self, gold: Any, record: Record) -> Iterable[tuple[Sequence[str], Sequence[str]]]:
        yield (gold, record["labels"]) if self.metadata.multi_label else ([gold], [record["label"]])

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return SEVERAL_METRICS if self.metadata.multi_label else CLASS_METRICS

    def majority(self, answers: NDArray[Any]) -> Any:
        """Return the most frequent class, the first of several, or the classes of most rows."""
        if self.metadata.multi_label:
            return (answers.mean(0) > 0.5).astype(np.int64)
        return np.bincount(answers).argmax()
