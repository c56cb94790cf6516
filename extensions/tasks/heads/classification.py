"""Classify a text or a pair of texts, into one or several classes (arXiv 1810.04805 §4.1)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from clozeline.columns import IGNORED, LENGTHS
from clozeline.configuration.config import config_class
from clozeline.extensions.tasks.readers import TaskMetadata
from clozeline.extensions.tasks.rows.classification import LABEL, LABELS
from clozeline.extensions.tasks.task_heads._metrics import CLASS_METRICS, SEVERAL_METRICS
from clozeline.extensions.tasks.task_heads._task_head import (
    Metric,
    Record,
    RowTaskHead,
    array_of,
    finite,
    rounded,
)
from clozeline.model.configuration.head import (
    ClassOptions,
    HeadOptions,
    SingleAnswerOptions,
    label_keys,
)
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads._head import RowHead, StoredColumns
from clozeline.model.loss import cross_entropy_sum, row_labels
from clozeline.pipeline.rows import RowBatch


class ClassificationHead(RowHead):
    """Cross entropy of the class of a row; `multi_label`: mean binary cross entropy over classes.

    `label` is the class index [B] int64, or with `multi_label` [B, classes]: 1 for each class of
    the row, otherwise 0. It is -100 in a row without label.
    """

    target: ClassVar = "classification"
    reads: ClassVar = (*LABEL.fields, LENGTHS)
    columns: ClassVar = (LABELS.name,)

    @config_class
    class Options(SingleAnswerOptions, ClassOptions):
        """Keys of the head that classifies rows."""

        multi_label: bool = False
        """A row has any number of classes, each predicted independently."""

        def __post_init__(self) -> None:
            ClassOptions.__post_init__(self)
            SingleAnswerOptions.__post_init__(self)

        @property
        def problem_type(self) -> str | None:
            return (
                "multi_label_classification" if self.multi_label else "single_label_classification"
            )

    figures: ClassVar = {"accuracy": "higher"}
    class_ending: ClassVar = "ForSequenceClassification"
    options: Options

    @classmethod
    def keys_of_class(
        cls, read_labels: Callable[[], tuple[str, ...]], problem: str | None
    ) -> dict[str, Any] | None:
        labels = read_labels()
        if problem == "regression" or (problem is None and len(labels) == 1):
            return None
        several = {"multi_label": True} if problem == "multi_label_classification" else {}
        return label_keys(labels) | several

    @staticmethod
    def tensors(batch: StoredColumns) -> dict[str, Tensor]:
        """Return `label` [B, classes] int64 from `labels`, -100 in rows without."""
        return {"label": torch.from_numpy(batch.padded(LABELS.name, IGNORED)[0])}

    def outputs(self) -> int:
        return self.options.require_classes(self.key(), 1 if self.options.multi_label else 2)

    def forward(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        scores = self.scores(hidden, tensors)
        labels = row_labels(tensors)
        if not self.options.multi_label:
            return cross_entropy_sum(scores, labels)
        labels = labels.expand_as(scores)  # [B, 1] where no row of the batch has labels
        known = (labels != IGNORED).float()
        losses = F.binary_cross_entropy_with_logits(
            scores.float(), labels.clamp(min=0).float(), reduction="none"
        )
        return (losses * known).mean(-1).sum()

    @property
    def label(self) -> str | None:
        return None if self.options.multi_label else "label"

    def divisor(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return _has_label(tensors).sum()

    def metrics(self, hidden: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the number of rows whose class, or all of whose classes, are predicted."""
        scores = self.scores(hidden, tensors)
        labels = row_labels(tensors)
        correct = (
            ((scores > 0) == (labels == 1)).all(-1)
            if self.options.multi_label
            else scores.argmax(-1) == labels
        )
        return {"accuracy": (correct & _has_label(tensors)).sum()}


def _has_label(tensors: Mapping[str, Tensor]) -> Tensor:
    """Return which rows [B] have weight and a label."""
    labels = row_labels(tensors)
    return labels.view(len(labels), -1).ne(IGNORED).all(1)


class ClassificationTaskHead(RowTaskHead):
    """Predicts the probabilities of all classes: a row has the highest, or all above one half."""

    of_head = "classification"
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

    def certain_classes(self, prediction: Any) -> tuple[tuple[int, ...], float]:
        if self.metadata.multi_label:
            chosen = [index for index, chance in enumerate(prediction) if chance > 0.5]
            return tuple(chosen), min(max(chance, 1 - chance) for chance in prediction)
        return (prediction.index(max(prediction)),), max(prediction)

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
