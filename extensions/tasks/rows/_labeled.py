"""Build rows of a text, or of a pair of texts, with one answer."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from clozeline.columns import Feature, Role
from clozeline.extensions.tasks.readers import LabeledText, TaskMetadata
from clozeline.extensions.tasks.rows._framed import ALL_IDS, ALL_SEGMENTS, join_rows
from clozeline.extensions.tasks.sets.task_rows import (
    INPUT_IDS,
    SEGMENT_STARTS,
    BuiltExample,
    SpecialTokens,
    TaskRows,
)
from clozeline.pipeline.tokenize.tokenizers import Encoding


class LabeledRows(TaskRows[LabeledText]):
    """Base of rows of a text or a pair with one answer, truncated to `max_length`.

    With `both_orders`, an example holds `<s> a [SEP] b [CLS]` and `<s> b [SEP] a [CLS]` (Radford et
    al. 2018 §3.3).
    """

    has_both_orders = True
    blanks = "stripped"
    switches_words = True

    @classmethod
    @abstractmethod
    def answer(cls, metadata: TaskMetadata) -> Feature:
        """Return the column with the answer of a row."""

    @classmethod
    def features(cls, metadata: TaskMetadata, frame: SpecialTokens) -> tuple[Feature, ...]:
        label = cls.answer(metadata)

        if metadata.both_orders:
            role = Role("start", "input_ids", head=metadata.head)
            starts = Feature(
                "choice_starts", "uint32", role, "starts of both orders of the pair, first 0"
            )
            return (ALL_IDS, starts, *((ALL_SEGMENTS,) if frame.segments else ()), label)

        return (
            INPUT_IDS,
            *((SEGMENT_STARTS,) if frame.segments and metadata.texts > 1 else ()),
            label,
        )

    def texts(self, item: LabeledText) -> Sequence[str]:
        return item.texts

    def build(
        self, item: LabeledText, encodings: Sequence[Encoding]
    ) -> Sequence[BuiltExample] | str:
        """Return the framed row; `no_tokens` if a text is empty."""
        ids = [encoding.ids for encoding in encodings]
        if not all(map(len, ids)):
            return "no_tokens"

        rows = [
            self.frame_texts(*ids),
            *([self.frame_texts(*ids[::-1])] if self.metadata.both_orders else []),
        ]
        classes = item.classes or (() if item.label is None else (item.label,))
        labels = {self.metadata.labels[index]: 1 for index in classes}
        columns = {
            **join_rows(rows),
            "label": [item.label],
            "target": [item.target],
            "labels": np.isin(np.arange(len(self.metadata.labels)), classes).astype(np.uint8),
        }

        return [BuiltExample(columns, cut=sum(row.cut for row in rows), labels=labels)]
