"""Build rows of examples with several choices."""

from collections.abc import Sequence
from typing import Final

from clozeline.columns import Feature, Role
from clozeline.pipeline.tasks.readers import Choices, TaskMetadata
from clozeline.pipeline.tasks.rows._framed import ALL_IDS, ALL_SEGMENTS, join_rows
from clozeline.pipeline.tasks.task_rows import BuiltExample, SpecialTokens, TaskRows
from clozeline.pipeline.tokenize.tokenizers import Encoding

_CHOICE_STARTS: Final = Feature(
    "choice_starts",
    "uint32",
    Role("start", "input_ids", head="multiple_choice"),
    "starts of choices, first 0",
)
_CHOICE: Final = Feature(
    "choice", "uint16", Role("row", head="multiple_choice"), "number of the right choice"
)


class ChoiceRows(TaskRows[Choices]):
    """Rows for the head multiple_choice: `[CLS] context [SEP] choice [SEP]` for each choice.

    Each is truncated to `max_length` separately (SWAG, arXiv 1808.05326).
    """

    for_head = "multiple_choice"
    per_token = 4

    @classmethod
    def features(cls, metadata: TaskMetadata, frame: SpecialTokens) -> tuple[Feature, ...]:
        return (ALL_IDS, _CHOICE_STARTS, *((ALL_SEGMENTS,) if frame.segments else ()), _CHOICE)

    def texts(self, item: Choices) -> Sequence[str]:
        return (item.context, *item.choices)

    def build(self, item: Choices, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return the rows of all choices as one example; `no_tokens` if a text is empty."""
        context, *choices = (encoding.ids for encoding in encodings)
        if not len(context) or not all(map(len, choices)):
            return "no_tokens"
        rows = [self.frame_texts(context, choice) for choice in choices]
        columns = {**join_rows(rows), "choice": [item.right]}
        return [
            BuiltExample(columns, cut=sum(row.cut for row in rows), labels={str(item.right): 1})
        ]
