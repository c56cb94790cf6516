"""Build rows for a bi-encoder: two texts encoded separately, and their similarity score."""

from collections.abc import Sequence
from typing import ClassVar, Final

from clozeline.pipeline.rows import Feature
from clozeline.pipeline.tasks.labeled_rows import TARGET
from clozeline.pipeline.tasks.readers import LabeledText, TaskFacts
from clozeline.pipeline.tasks.special_token_templates import Frame
from clozeline.pipeline.tasks.task_rows import BuiltExample, TaskRows
from clozeline.pipeline.tokenize.tokenizers import Encoding

_FIRST: Final = Feature("input_ids", "ids", 1, "one text, framed")
_SECOND: Final = Feature("input_ids_b", "ids", 1, "the text it is compared with, framed")


class PairRows(TaskRows[LabeledText]):
    """Rows for the head similarity: `[CLS] a [SEP]` and `[CLS] b [SEP]`, each truncated to `max_length` separately."""

    per_token: ClassVar = 2

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        return (_FIRST, _SECOND, TARGET)

    def texts(self, item: LabeledText) -> Sequence[str]:
        return item.texts

    def build(self, item: LabeledText, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return both framed rows; `no_tokens` if a text is empty."""
        if not all(len(encoding.ids) for encoding in encodings):
            return "no_tokens"
        vocabulary, length = self.tokenizer.vocabulary, self.form.max_length
        first, second = (self.form.frame.row([encoding.ids], vocabulary, length) for encoding in encodings)
        columns = {"input_ids": first.ids, "input_ids_b": second.ids, "target": [item.target]}
        return [BuiltExample(columns, cut=first.cut + second.cut)]
