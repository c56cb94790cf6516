"""Rows of texts or pairs with one class, or any number of them."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from clozeline.columns import Feature, Role
from clozeline.extensions.tasks.readers import TaskMetadata
from clozeline.extensions.tasks.rows._labeled import LabeledRows
from clozeline.pipeline.rows import Ragged, ShardRow
from clozeline.pipeline.set_kinds import Problem

LABEL: Final = Feature(
    "label", "uint16", Role("row", head="classification", below="classes"), "number of the class"
)
LABELS: Final = Feature(
    "labels",
    "uint8",
    Role("label", head="classification", below=2),
    "1 for classes of the row, else 0",
)


class ClassRows(LabeledRows):
    """Rows of texts or pairs with one class, or any number of them."""

    for_head = "classification"

    @classmethod
    def answer(cls, metadata: TaskMetadata) -> Feature:
        return LABELS if metadata.multi_label else LABEL

    @classmethod
    def describe_answer(cls, metadata: TaskMetadata, row: ShardRow) -> dict[str, str]:
        if metadata.multi_label:
            pairs = zip(metadata.labels, row["labels"].tolist(), strict=True)
            names = ", ".join(name for name, has in pairs if has)
            return {"labels": f"{names or 'none'} of {metadata.name}"}
        (number,) = row["label"].tolist()
        return {"label": f"{number}, {metadata.labels[number]!r} of {metadata.name}"}

    @classmethod
    def problems(cls, metadata: TaskMetadata, columns: Mapping[str, Ragged]) -> Iterator[Problem]:
        sizes = columns["labels"].lengths if metadata.multi_label else np.empty(0)
        for row in np.flatnonzero(sizes != len(metadata.labels)).tolist():
            yield row, f"expected labels of {len(metadata.labels)} classes, got {sizes[row]}"
