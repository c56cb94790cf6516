"""Build rows of pairs of texts, whose vectors are compared."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from clozeline.columns import IDS, Feature, Role
from clozeline.extensions.tasks.readers import LabeledText, TaskMetadata
from clozeline.extensions.tasks.rows.regression import TARGET, describe_number, numbers_outside
from clozeline.extensions.tasks.sets.task_rows import BuiltExample, SpecialTokens, TaskRows
from clozeline.pipeline.tokenize.tokenizers import Encoding

_SCORE: Final = replace(TARGET, role=Role("row", head="similarity"))
_FIRST_IDS: Final = Feature("input_ids", "ids", IDS, "one text, framed")
SECOND_IDS: Final = Feature(
    "input_ids_b", "ids", Role("ids", head="similarity"), "the text it is compared with, framed"
)


class PairRows(TaskRows[LabeledText]):
    """Rows for the head similarity: `[CLS] a [SEP]` and `[CLS] b [SEP]`, truncated separately."""

    for_head = "similarity"
    architectures = ("encoder", "decoder")
    """An encoder-decoder has the sentence vectors of its encoder alone."""
    per_token = 2
    blanks = "stripped"
    problems = staticmethod(numbers_outside)
    describe_answer = staticmethod(describe_number)

    @classmethod
    def features(cls, metadata: TaskMetadata, frame: SpecialTokens) -> tuple[Feature, ...]:
        return (_FIRST_IDS, SECOND_IDS, _SCORE)

    def texts(self, item: LabeledText) -> Sequence[str]:
        return item.texts

    def build(
        self, item: LabeledText, encodings: Sequence[Encoding]
    ) -> Sequence[BuiltExample] | str:
        """Return both framed rows; `no_tokens` if a text is empty."""
        if not all(len(encoding.ids) for encoding in encodings):
            return "no_tokens"
        first, second = (self.frame_texts(encoding.ids) for encoding in encodings)
        columns = {"input_ids": first.ids, "input_ids_b": second.ids, "target": [item.target]}
        return [BuiltExample(columns, cut=first.cut + second.cut)]
