"""Labelled texts as rows of an example set: framed ids, segments, and the label as a column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import numpy as np

from pipeline.documents.document import document_uid
from pipeline.execution.unit_record import add_counts
from pipeline.rows import Feature, Ragged, Rows
from pipeline.seeding import keyed_hash, mix
from pipeline.task_readers import LabelledText, Refused, TaskFacts
from pipeline.tasks.counts import SplitCounts
from pipeline.tasks.frames import Frame, FramedRow
from pipeline.tokenizers import Tokenizer

__all__ = ["LABEL", "TARGET", "LabelledRows", "row_features"]

LABEL: Final = Feature("label", "uint16", 0, "number of the row's class; its name stands in the manifest")
TARGET: Final = Feature("target", "float32", 0, "number that the row is to be given")
_IDS: Final = Feature("input_ids", "ids", 1, "framed text, or pair of texts")
_STARTS: Final = Feature("segment_starts", "uint16", 1, "places in input_ids where the texts' segments start, first 0")
_BATCH: Final = 1024
"""Texts that are encoded at a time."""


def row_features(facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
    """Return the list columns of a task's rows, in their order."""
    label = LABEL if facts.head == "classification" else TARGET
    return (_IDS, *((_STARTS,) if frame.segments and facts.texts > 1 else ()), label)


@dataclass
class LabelledRows:
    """Rows of one file; the counts are complete when they have been taken.

    Args:
        facts: of the task.
        frame: special tokens around the texts.
        tokenizer: of the set.
        max_length: tokens of a row at most.
        corpus: of the recipe; with `source`, the place of the row and its texts it decides its uid.
        source: name of the file.
    """

    facts: TaskFacts
    frame: Frame
    tokenizer: Tokenizer
    max_length: int
    corpus: str
    source: str
    counts: SplitCounts = field(
        default_factory=lambda: SplitCounts(
            rows_in=0, examples=0, refused={}, tokens=0, truncated=0, truncated_tokens=0, labels={}
        )
    )

    def rows(self, texts: Iterable[LabelledText | Refused]) -> Rows:
        """Return all rows in the order of a keyed word of their uid, so that no block holds one class alone."""
        found = list(self._framed(texts))
        rows = self._columns([text for text, _ in found], [row for _, row in found])
        return rows.take(np.argsort(mix(rows.fixed["uid"]), kind="stable"))

    def _framed(self, texts: Iterable[LabelledText | Refused]) -> Iterator[tuple[LabelledText, FramedRow]]:
        given = iter(texts)
        while batch := list(islice(given, _BATCH)):
            add_counts(self.counts, {"rows_in": len(batch)})
            kept = [one for one in batch if isinstance(one, LabelledText)]
            encodings = iter(self.tokenizer.encode([text for one in kept for text in one.texts]))
            for one in batch:
                if isinstance(one, Refused):
                    self._refuse(one.reason)
                    continue
                ids = [next(encodings).ids for _ in one.texts]
                if all(map(len, ids)):
                    yield one, self._counted(one, self.frame.row(ids, self.tokenizer.vocabulary, self.max_length))
                else:
                    self._refuse("no_tokens")

    def _refuse(self, reason: str) -> None:
        add_counts(self.counts, {"refused": {reason: 1}})

    def _counted(self, text: LabelledText, row: FramedRow) -> FramedRow:
        counts: dict[str, Any] = {"examples": 1, "tokens": len(row.ids)}
        if text.label is not None:
            counts["labels"] = {self.facts.labels[text.label]: 1}
        if row.cut:
            counts |= {"truncated": 1, "truncated_tokens": row.cut}
        add_counts(self.counts, counts)
        return row

    def _columns(self, texts: Sequence[LabelledText], rows: Sequence[FramedRow]) -> Rows:
        documents = [document_uid(self.corpus, self.source, "row", text.place) for text in texts]
        uids = [keyed_hash("task", uid, *text.texts) for uid, text in zip(documents, texts, strict=True)]
        zeros = {"variant": np.uint16, "document_offset": np.uint32, "copy": np.uint8, "part": np.uint8,
                 "language": np.uint8}  # fmt: skip
        fixed: dict[str, Any] = {
            "uid": np.array(uids, np.uint64),
            "document_uid": np.frombuffer(b"".join(documents), np.uint8).reshape(-1, 16),
            **{name: np.zeros(len(texts), dtype) for name, dtype in zeros.items()},
        }
        ids = self.tokenizer.vocabulary.id_dtype
        columns: dict[str, tuple[list[Any], Any]] = {
            "input_ids": ([row.ids for row in rows], ids),
            "segment_starts": ([row.segment_starts for row in rows], np.uint16),
            "label": ([[text.label] for text in texts], np.uint16),
            "target": ([[text.target] for text in texts], np.float32),
        }
        wanted: Mapping[str, Ragged] = {
            feature.name: Ragged.from_lists(*columns[feature.name]) for feature in row_features(self.facts, self.frame)
        }
        return Rows(fixed, wanted)
