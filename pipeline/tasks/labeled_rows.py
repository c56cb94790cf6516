"""Build rows of labeled texts: for classification and regression, for pairs in a bi-encoder, for multiple choice."""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from clozeline.pipeline.rows import Feature
from clozeline.pipeline.tasks.readers import Choices, LabeledText, TaskFacts
from clozeline.pipeline.tasks.special_token_templates import Frame
from clozeline.pipeline.tasks.task_rows import INPUT_IDS, BuiltExample, TaskRows
from clozeline.pipeline.tokenize.tokenizers import Encoding

LABEL: Final = Feature("label", "uint16", 0, "number of the row's class; its name is in the manifest")
LABELS: Final = Feature("labels", "uint8", 1, "1 for each class of the row, otherwise 0, in the order of the manifest")
TARGET: Final = Feature("target", "float32", 0, "number that the row is to be given")
SEGMENT_STARTS: Final = Feature(
    "segment_starts", "uint16", 1, "places in input_ids where the texts' segments start, first 0"
)
_FIRST: Final = Feature("input_ids", "ids", 1, "one text, framed")
_SECOND: Final = Feature("input_ids_b", "ids", 1, "the text it is compared with, framed")
_ALL_IDS: Final = Feature("input_ids", "ids", 1, "framed rows of all choices, end to end")
_CHOICE_STARTS: Final = Feature("choice_starts", "uint32", 1, "places in input_ids where choices start, first 0")
_ALL_SEGMENTS: Final = Feature(
    "segment_starts", "uint32", 1, "places in input_ids where context and choice of each row start, first 0"
)
_CHOICE: Final = Feature("choice", "uint16", 0, "number of the right choice")


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


class PairRows(LabeledRows):
    """Rows for the head similarity: `[CLS] a [SEP]` and `[CLS] b [SEP]`, each truncated to `max_length` separately."""

    per_token: ClassVar = 2

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        return (_FIRST, _SECOND, TARGET)

    def build(self, item: LabeledText, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return both framed rows; `no_tokens` if a text is empty."""
        if not all(len(encoding.ids) for encoding in encodings):
            return "no_tokens"
        vocabulary, length = self.tokenizer.vocabulary, self.form.max_length
        first, second = (self.form.frame.row([encoding.ids], vocabulary, length) for encoding in encodings)
        columns = {"input_ids": first.ids, "input_ids_b": second.ids, "target": [item.target]}
        return [BuiltExample(columns, cut=first.cut + second.cut)]


class ChoiceRows(TaskRows[Choices]):
    """Rows for the head multiple_choice: `[CLS] context [SEP] choice [SEP]` for each choice (SWAG, arXiv 1808.05326).

    Each of them is truncated to `max_length` separately.
    """

    per_token: ClassVar = 4

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        return (_ALL_IDS, _CHOICE_STARTS, *((_ALL_SEGMENTS,) if frame.segments else ()), _CHOICE)

    def texts(self, item: Choices) -> Sequence[str]:
        return (item.context, *item.choices)

    def build(self, item: Choices, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return the rows of all choices as one example; `no_tokens` if a text is empty."""
        context, *choices = (encoding.ids for encoding in encodings)
        if not len(context) or not all(map(len, choices)):
            return "no_tokens"
        vocabulary, length = self.tokenizer.vocabulary, self.form.max_length
        rows = [self.form.frame.row([context, choice], vocabulary, length) for choice in choices]
        starts = np.cumsum([0, *(len(row.ids) for row in rows)])[:-1]
        columns = {
            "input_ids": np.concatenate([row.ids for row in rows]),
            "choice_starts": starts,
            "segment_starts": [
                at + begin for row, begin in zip(rows, starts, strict=True) for at in row.segment_starts
            ],
            "choice": [item.right],
        }
        return [BuiltExample(columns, cut=sum(row.cut for row in rows), labels={str(item.right): 1})]
