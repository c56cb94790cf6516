"""Rows of texts or pairs with a number."""

from typing import Final

from clozeline.columns import Feature, Role
from clozeline.pipeline.tasks.readers import TaskMetadata
from clozeline.pipeline.tasks.rows._labeled import LabeledRows

TARGET: Final = Feature(
    "target", "float32", Role("row", head="regression"), "number that the row is to be given"
)


class NumberRows(LabeledRows):
    """Rows of texts or pairs with a number."""

    for_head = "regression"

    @classmethod
    def answer(cls, metadata: TaskMetadata) -> Feature:
        return TARGET
