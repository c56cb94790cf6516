"""Rows of texts or pairs with a number."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from clozeline.columns import Feature, Role
from clozeline.extensions.tasks.readers import TaskMetadata
from clozeline.extensions.tasks.rows._labeled import LabeledRows
from clozeline.pipeline.rows import Ragged, ShardRow
from clozeline.pipeline.set_kinds import Problem

TARGET: Final = Feature(
    "target", "float32", Role("row", head="regression"), "number that the row is to be given"
)


def numbers_outside(metadata: TaskMetadata, columns: Mapping[str, Ragged]) -> Iterator[Problem]:
    """Yield each row whose number is outside the task's range, and the problem."""
    low = np.float32(metadata.low)
    high = np.float32(metadata.high)
    scores = columns[TARGET.name].values
    for row in np.flatnonzero(~((scores >= low) & (scores <= high))).tolist():
        yield (
            row,
            f"expected a number from {low:g} to {high:g} of the task {metadata.name}, got "
            f"{scores[row]:g}",
        )


def describe_number(metadata: TaskMetadata, row: ShardRow) -> dict[str, str]:
    """Return the number of a row with the task's range."""
    (target,) = row[TARGET.name].tolist()
    return {"target": f"{target:g}, from {metadata.low:g} to {metadata.high:g} in {metadata.name}"}


class NumberRows(LabeledRows):
    """Rows of texts or pairs with a number."""

    for_head = "regression"
    problems = staticmethod(numbers_outside)
    describe_answer = staticmethod(describe_number)

    @classmethod
    def answer(cls, metadata: TaskMetadata) -> Feature:
        return TARGET
