"""Build rows of examples with several choices."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from clozeline.columns import Feature, Role
from clozeline.extensions.tasks.readers import (
    Choices,
    Rejected,
    TaskItem,
    TaskMetadata,
    TaskReader,
)
from clozeline.extensions.tasks.rows._framed import ALL_IDS, ALL_SEGMENTS, join_rows
from clozeline.extensions.tasks.sets.task_rows import (
    BuiltExample,
    SpecialTokens,
    TaskRows,
    join_cells,
)
from clozeline.pipeline.rows import Ragged, ShardRow
from clozeline.pipeline.set_kinds import Problem
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

    @classmethod
    def problems(cls, metadata: TaskMetadata, columns: Mapping[str, Ragged]) -> Iterator[Problem]:
        counts = columns["choice_starts"].lengths
        right = columns["choice"].values
        for row in np.flatnonzero((counts < 2) | (right >= counts)).tolist():
            yield (
                row,
                f"expected two or more choices and a choice below {counts[row]}, got "
                f"[{right[row]}]",
            )

    @classmethod
    def describe_answer(cls, metadata: TaskMetadata, row: ShardRow) -> dict[str, str]:
        (choice,) = row["choice"].tolist()
        return {"choice": f"{choice} of {len(row['choice_starts'])}, numbered from 0"}

    @property
    def inputs(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return ("context", "choices"), ("begin",)

    def item(
        self, values: Mapping[str, Sequence[Any]], reader: TaskReader, index: int, key: object
    ) -> TaskItem | Rejected:
        """Return the item of a row with choices in one column or in one column each.

        `begin` starts all choices.
        """
        cells = values["choices"]
        cells = cells[0] if len(cells) == 1 and isinstance(cells[0], list) else cells
        context = join_cells(values["context"], reader.form)
        begin = join_cells(values.get("begin", ()), reader.form)
        choices = [join_cells([cell], reader.form) for cell in cells]
        if context is None or begin is None or None in choices:
            return Rejected("fields", index)
        if not context or not all(choices):
            return Rejected("empty_text", index)
        if len(choices) < 2:
            return Rejected("fields", index)
        return Choices(context, tuple(f"{begin} {choice}".strip() for choice in choices), 0, index)

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
