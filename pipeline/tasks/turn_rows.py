"""Texts that continue: all parts of a dialogue in one row, of which the answers alone are learnt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from clozeline.pipeline.rows import Feature
from clozeline.pipeline.tasks.part_ids import part_ids
from clozeline.pipeline.tasks.readers import Dialogue, SourceTarget, TaskFacts
from clozeline.pipeline.tasks.special_token_templates import Frame
from clozeline.pipeline.tasks.task_rows import INPUT_IDS, RECORD, BuiltExample, TaskRows, record_bytes
from clozeline.pipeline.tokenize.tokenizers import Encoding

_LABEL_POSITIONS: Final = Feature("label_positions", "uint16", 1, "ascending places in input_ids of what is learnt")
_LABEL_IDS: Final = Feature("label_ids", "ids", 1, "ids at label_positions, each predicted at the place before")


class TurnRows(TaskRows[SourceTarget | Dialogue]):
    """Rows for the head lm of a decoder: the loss is that of the answers, the rest is read (arXiv 2203.02155).

    A row over `max_length` loses its end. One that keeps no token of an answer is refused as `too_long`. `record` has
    the text before the last answer, and the answers accepted there.
    """

    per_token: ClassVar = 4

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        """Return the list columns, in their order."""
        return (INPUT_IDS, _LABEL_POSITIONS, _LABEL_IDS, RECORD)

    def texts(self, item: SourceTarget | Dialogue) -> Sequence[str]:
        """Return the texts of all parts but the special tokens."""
        return [part.text for part in item.parts if not part.special]

    def build(self, item: SourceTarget | Dialogue, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return the row; `no_tokens` where a part of an answer has none."""
        vocabulary, frame = self.tokenizer.vocabulary, self.form.frame
        parts = part_ids(item.parts, encodings, vocabulary)
        if any(part.is_target and not len(ids) for part, ids in zip(item.parts, parts, strict=True)):
            return "no_tokens"
        head, tail = (frame.ids(roles, vocabulary) for roles in (frame.head, frame.tail))
        if len(tail) and parts[-1][-1:].tolist() == tail.tolist():
            tail = tail[:0]
        ids = np.concatenate((head, *parts, tail)).astype(vocabulary.id_dtype)
        flags = [False, *(part.is_target for part in item.parts), item.parts[-1].is_target]
        is_target = np.repeat(flags, [len(head), *map(len, parts), len(tail)])
        kept = min(len(ids), self.form.max_length)
        places = np.flatnonzero(is_target[:kept])
        places = places[places > 0]
        if not len(places):
            return "too_long"
        source, targets = item.answers[-1]
        columns = {
            "input_ids": ids[:kept],
            "label_positions": places,
            "label_ids": ids[places],
            "record": record_bytes({"source": source, "targets": list(targets)}),
        }
        return [BuiltExample(columns, cut=len(ids) - kept, notes={"labels": len(places)})]
