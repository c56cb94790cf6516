"""Build rows for multiple choice: the rows of all choices end to end, and the index of the correct one."""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from clozeline.pipeline.rows import Feature
from clozeline.pipeline.tasks.readers import Choices, TaskFacts
from clozeline.pipeline.tasks.special_token_templates import Frame
from clozeline.pipeline.tasks.task_rows import BuiltExample, TaskRows
from clozeline.pipeline.tokenize.tokenizers import Encoding

_INPUT_IDS: Final = Feature("input_ids", "ids", 1, "framed rows of all choices, end to end")
_CHOICE_STARTS: Final = Feature("choice_starts", "uint32", 1, "places in input_ids where choices start, first 0")
_SEGMENT_STARTS: Final = Feature(
    "segment_starts", "uint32", 1, "places in input_ids where context and choice of each row start, first 0"
)
_CHOICE: Final = Feature("choice", "uint16", 0, "number of the right choice")


class ChoiceRows(TaskRows[Choices]):
    """Rows for the head multiple_choice: `[CLS] context [SEP] choice [SEP]` for each choice (SWAG, arXiv 1808.05326).

    Each of them is truncated to `max_length` separately.
    """

    per_token: ClassVar = 4

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        return (_INPUT_IDS, _CHOICE_STARTS, *((_SEGMENT_STARTS,) if frame.segments else ()), _CHOICE)

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
