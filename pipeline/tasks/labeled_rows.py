"""Build rows for classification and regression of a text or a pair of texts."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from clozeline.pipeline.rows import Feature
from clozeline.pipeline.tasks.readers import LabeledText, TaskFacts
from clozeline.pipeline.tasks.special_token_templates import Frame
from clozeline.pipeline.tasks.task_rows import INPUT_IDS, BuiltExample, TaskRows
from clozeline.pipeline.tokenize.tokenizers import Encoding

LABEL: Final = Feature("label", "uint16", 0, "number of the row's class; its name is in the manifest")
LABELS: Final = Feature("labels", "uint8", 1, "1 for each class of the row, otherwise 0, in the order of the manifest")
TARGET: Final = Feature("target", "float32", 0, "number that the row is to be given")
SEGMENT_STARTS: Final = Feature(
    "segment_starts", "uint16", 1, "places in input_ids where the texts' segments start, first 0"
)


class LabeledRows(TaskRows[LabeledText]):
    """Rows for the heads classification and regression, truncated to `max_length`."""

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        label = TARGET if facts.head == "regression" else LABELS if facts.multi_label else LABEL
        return (INPUT_IDS, *((SEGMENT_STARTS,) if frame.segments and facts.texts > 1 else ()), label)

    def texts(self, item: LabeledText) -> Sequence[str]:
        return item.texts

    def build(self, item: LabeledText, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return the framed row; `no_tokens` if a text is empty."""
        ids = [encoding.ids for encoding in encodings]
        if not all(map(len, ids)):
            return "no_tokens"
        row = self.form.frame.row(ids, self.tokenizer.vocabulary, self.form.max_length)
        classes = item.classes or (() if item.label is None else (item.label,))
        labels = {self.facts.labels[index]: 1 for index in classes}
        columns = {"input_ids": row.ids, "segment_starts": row.segment_starts, "label": [item.label],
                   "target": [item.target],
                   "labels": np.isin(np.arange(len(self.facts.labels)), classes).astype(np.uint8)}  # fmt: skip
        return [BuiltExample(columns, cut=row.cut, labels=labels)]
