"""Answers of a head that gives a text or a pair of texts one class, or any number of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clozeline.columns import IGNORED
from clozeline.model.configuration.head import HeadOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads.classification import ClassificationHead
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.tasks.readers import TaskMetadata
from clozeline.pipeline.tasks.rows.classification import LABELS
from clozeline.train.data.stream.head_features import HeadBatch
from clozeline.train.data.stream.padding import pad_rows
from clozeline.train.task_heads._task_head import (
    Record,
    RowTaskHead,
    TaskModel,
    array_of,
    finite,
    rounded,
)


class ClassificationTaskHead(RowTaskHead):
    """Predicts the scores of all classes: the highest one, or for several labels all above 0."""

    columns = (LABELS,)
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

    @staticmethod
    def tensors(batch: HeadBatch) -> dict[str, Tensor]:
        """Return `label` [B, classes] int64 from `labels`, -100 in rows without."""
        values, sizes = pad_rows(batch.columns["labels"], IGNORED)
        return {
            "label": torch.from_numpy(
                np.where(sizes[:, None] > 0, values.astype(np.int64), IGNORED)
            )
        }

    def read(
        self, scores: Tensor, tensors: Mapping[str, Tensor], rows: RowBatch
    ) -> Sequence[object]:
        by_row: list[list[float]] = finite(scores).tolist()
        return by_row

    def values(self, predicted: Mapping[int, Any]) -> NDArray[Any]:
        scores = array_of(predicted, np.float32)
        return (scores > 0).astype(np.int64) if self.metadata.multi_label else scores.argmax(-1)

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
        chances = map(rounded, self._chances(prediction).tolist())
        by_name = dict(zip(labels, chances, strict=True))
        if self.metadata.multi_label:
            chosen = [name for name, score in zip(labels, prediction, strict=True) if score > 0]
            return {"labels": chosen, "probabilities": by_name}
        best = labels[prediction.index(max(prediction))]
        return {"label": best, "probability": by_name[best], "probabilities": by_name}

    def certain_class(self, prediction: object) -> tuple[int | tuple[int, ...], float]:
        chances = self._chances(prediction)
        if self.metadata.multi_label:
            sure = float(chances.maximum(1 - chances).min())
            return tuple((chances > 0.5).nonzero()[:, 0].tolist()), sure
        return int(chances.argmax()), float(chances.max())

    def _chances(self, prediction: object) -> Tensor:
        scores = torch.tensor(prediction)
        return scores.sigmoid() if self.metadata.multi_label else scores.softmax(-1)

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

    def baselines(
        self, task: TaskModel, train: RowBatch, rows: RowBatch
    ) -> dict[str, NDArray[np.generic]]:
        """Return `words`, and `majority`: the most frequent class, or the classes of most rows.

        Of equally frequent classes, the first one counts.
        """
        from clozeline.train.task_heads._bag_of_words import fit_predict

        answers = self.answers(train)
        texts = self.texts(rows, task)
        counts = (
            answers.mean(0) > 0.5 if self.metadata.multi_label else np.bincount(answers).argmax()
        )
        return {
            "majority": np.broadcast_to(counts, (len(texts), *np.shape(counts))).astype(np.int64),
            "words": fit_predict(self.texts(train, task), answers, texts, self.metadata.texts),
        }
