"""Texts that become texts: the source for the encoder, the target for the decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from pipeline.rows import Feature
from pipeline.task_readers import SourceTarget, TaskFacts
from pipeline.tasks.frames import Frame
from pipeline.tasks.task_rows import INPUT_IDS, RECORD, Built, TaskRows, record_bytes
from pipeline.tokenizers import Encoding

__all__ = ["TargetRows"]

_TARGET: Final = Feature("target_ids", "ids", 1, "target, </s>")


class TargetRows(TaskRows[SourceTarget]):
    """Rows for the head lm of an encoder-decoder: `source </s>` and `target </s>` (T5, arXiv 1910.10683).

    Both are cut to `max_length`, and keep their `</s>`. `record` has the source, and all accepted targets uncut.
    """

    per_token: ClassVar = 4

    @classmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        """Return the list columns, in their order."""
        return (INPUT_IDS, _TARGET, RECORD)

    def texts(self, item: SourceTarget) -> Sequence[str]:
        """Return the source and the target that is learnt."""
        return (item.prefix + item.source, item.targets[0])

    def build(self, item: SourceTarget, encodings: Sequence[Encoding]) -> Sequence[Built] | str:
        """Return the row of a pair; `no_tokens` where one side has none."""
        if not all(len(encoding.ids) for encoding in encodings):
            return "no_tokens"
        source, target = (
            self.form.frame.row([encoding.ids], self.tokenizer.vocabulary, self.form.max_length)
            for encoding in encodings
        )
        columns = {
            "input_ids": source.ids,
            "target_ids": target.ids,
            "record": record_bytes({"source": item.source, "targets": list(item.targets)}),
        }
        return [Built(columns, cut=source.cut + target.cut, notes={"targets_cut": 1} if target.cut else {})]
