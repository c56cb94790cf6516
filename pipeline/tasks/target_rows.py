"""Texts that become texts: the source for the encoder, the target for the decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.rows import Feature
from clozeline.pipeline.tasks.part_ids import part_ids
from clozeline.pipeline.tasks.readers import Dialogue, SourceTarget, TaskFacts, answer_runs
from clozeline.pipeline.tasks.special_token_templates import Frame
from clozeline.pipeline.tasks.task_rows import INPUT_IDS, RECORD, BuiltExample, TaskRows, record_bytes
from clozeline.pipeline.tokenize.tokenizers import Encoding

_TARGET: Final = Feature("target_ids", "ids", 1, "target, </s>")


class TargetRows(TaskRows[SourceTarget | Dialogue]):
    """Rows for the head lm of an encoder-decoder: `source </s>` and `target </s>` (T5, arXiv 1910.10683).

    Both are cut to `max_length`, and keep their `</s>`. A dialogue is a row for each answer, whose source is all that
    comes before. `record` has the source, and all accepted targets uncut.
    """

    per_token: ClassVar = 4

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        """Return the list columns, in their order."""
        return (INPUT_IDS, _TARGET, RECORD)

    def texts(self, item: SourceTarget | Dialogue) -> Sequence[str]:
        """Return the texts of all parts but the special tokens."""
        return [part.text for part in item.parts if not part.special]

    def build(self, item: SourceTarget | Dialogue, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return the rows of all answers; `no_tokens` where one side of one has none."""
        parts = part_ids(item.parts, encodings, self.tokenizer.vocabulary)
        runs = answer_runs(item.parts)
        sides = [(self._side(parts[:begin]), self._side(parts[begin:end])) for begin, end in runs]
        if not all(len(source) and len(target) for source, target in sides):
            return "no_tokens"
        return [
            self._answer(source, target, record_bytes({"source": text, "targets": list(targets)}), number)
            for number, ((source, target), (text, targets)) in enumerate(zip(sides, item.answers, strict=True))
        ]

    def _side(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return the ids of some parts, without the end that the frame gives to them."""
        ids = np.concatenate(parts)
        tail = self.form.frame.ids(self.form.frame.tail, self.tokenizer.vocabulary)
        return ids[: -len(tail)] if ids[-len(tail) :].tolist() == tail.tolist() else ids

    def _answer(
        self, source: NDArray[Any], target: NDArray[Any], record: NDArray[np.uint8], number: int
    ) -> BuiltExample:
        framed, wanted = (
            self.form.frame.row([ids], self.tokenizer.vocabulary, self.form.max_length) for ids in (source, target)
        )
        columns = {"input_ids": framed.ids, "target_ids": wanted.ids, "record": record}
        return BuiltExample(
            columns, offset=number, cut=framed.cut + wanted.cut, notes={"targets_cut": 1} if wanted.cut else {}
        )
