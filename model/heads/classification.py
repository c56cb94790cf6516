"""Classify a text or a pair of texts, into one or several classes (arXiv 1810.04805 §4.1)."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from clozeline.columns import IGNORED, LENGTHS, BatchField
from clozeline.configuration.config import config_class
from clozeline.model.configuration.head import ClassOptions, ExitHeadOptions, label_keys
from clozeline.model.heads._head import RowHead, StoredColumns
from clozeline.model.loss import cross_entropy_sum, row_labels


class ClassificationHead(RowHead):
    """Cross entropy of the class of a row; `multi_label`: mean binary cross entropy over classes.

    `label` is the class index [B] int64, or with `multi_label` [B, classes]: 1 for each class of
    the row, otherwise 0. It is -100 in a row without label.
    """

    target: ClassVar = "classification"
    reads: ClassVar = (BatchField("label", "row", filler=IGNORED, below="classes"), LENGTHS)
    columns: ClassVar = ("labels",)

    @config_class
    class Options(ExitHeadOptions, ClassOptions):
        """Keys of the head that classifies rows."""

        multi_label: bool = False
        """A row has any number of classes, each predicted independently."""

        def __post_init__(self) -> None:
            ClassOptions.__post_init__(self)
            ExitHeadOptions.__post_init__(self)
            if self.exits is not None and self.multi_label:
                raise ValueError("exits: a row leaves with one class: remove multi_label")

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
        return {"label": torch.from_numpy(batch.padded("labels", IGNORED)[0])}

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
