"""Rows of a task as rows of an example set: encoded, framed, and in an order that follows from their uids."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.execution.unit_record import add_counts
from clozeline.pipeline.ingest.documents.document import document_uid
from clozeline.pipeline.rows import Feature, Ragged, Rows
from clozeline.pipeline.tasks.counts import SplitCounts
from clozeline.pipeline.tasks.readers import Rejected, TaskFacts, TaskItem
from clozeline.pipeline.tasks.special_token_templates import Frame
from clozeline.pipeline.tokenize.tokenizers import Encoding, Tokenizer
from clozeline.seeding import hash64, mix

Item = TypeVar("Item", bound=TaskItem)

INPUT_IDS: Final = Feature("input_ids", "ids", 1, "framed text, or pair of texts")
RECORD: Final = Feature("record", "uint8", 1, "what scores are computed from: JSON in UTF-8, which no model reads")
_BATCH: Final = 1024
"""Rows that are encoded at a time."""


def record_bytes(record: Mapping[str, Any]) -> NDArray[np.uint8]:
    """Return the content of the column `record`."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return np.frombuffer(text.encode(), np.uint8)


def record_of(rows: Rows, row: int) -> dict[str, Any]:
    """Return what the column `record` holds for a row."""
    record: dict[str, Any] = json.loads(rows.columns["record"][row].tobytes())
    return record


@dataclass(frozen=True)
class Form:
    """The form of the rows of a set.

    Args:
        frame: special tokens around texts.
        max_length: tokens of a row at most.
        stride: tokens between the begins of two windows of one text, at most half of their room; None: half of it.
    """

    frame: Frame
    max_length: int
    stride: int | None = None

    def step(self, room: int) -> int:
        """Return the tokens between the begins of two windows of `room` tokens.

        At most half of the room, so that every part of a text of at most half of it lies in some window.
        """
        half = max(1, room // 2)
        return min(half, self.stride or half)


@dataclass(frozen=True, slots=True)
class BuiltExample:
    """One example.

    Args:
        columns: the content of each list column.
        offset: number of its first word or token, of a row that became several examples.
        cut: tokens that it lost.
        labels: how often it has each class.
        notes: what else is counted, by name.
    """

    columns: Mapping[str, Any]
    offset: int = 0
    cut: int = 0
    labels: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)


class TaskRows(ABC, Generic[Item]):
    """Rows of one file; the counts are complete when they have been taken.

    Args:
        facts: of the task.
        form: of the rows.
        tokenizer: of the set.
        corpus: of the recipe; with `source`, the place of the row and its texts it decides its uid.
        source: name of the file.
    """

    per_token: ClassVar[int] = 1
    """Values of all columns together for each token, as large as an id; from them follow the rows of a block."""

    def __init__(self, facts: TaskFacts, form: Form, tokenizer: Tokenizer, corpus: str, source: str) -> None:
        self.facts, self.form, self.tokenizer = facts, form, tokenizer
        self.corpus, self.source = corpus, source
        self.counts = SplitCounts(
            rows_in=0, examples=0, windows=0, refused={}, tokens=0, truncated=0, truncated_tokens=0, labels={}, notes={}
        )

    @classmethod
    @abstractmethod
    def features(cls, facts: TaskFacts, frame: Frame) -> tuple[Feature, ...]:
        """Return the list columns, in their order."""

    @abstractmethod
    def texts(self, item: Item) -> Sequence[str]:
        """Return the texts of a row that are encoded."""

    @abstractmethod
    def build(self, item: Item, encodings: Sequence[Encoding]) -> Sequence[BuiltExample] | str:
        """Return the examples of a row, or the reason for which it is none.

        Args:
            item: the row.
            encodings: of its texts.
        """

    def rows(self, items: Iterable[Item | Rejected]) -> Rows:
        """Return all rows in the order of a keyed word of their uid, so that no block holds one class alone."""
        found = list(self._build_all(items))
        rows = self._columns([item for item, _ in found], [built for _, built in found])
        return rows.take(np.argsort(mix(rows.fixed["uid"]), kind="stable"))

    def _build_all(self, items: Iterable[Item | Rejected]) -> Iterator[tuple[Item, BuiltExample]]:
        given = iter(items)
        while batch := list(islice(given, _BATCH)):
            add_counts(self.counts, {"rows_in": len(batch)})
            kept = [one for one in batch if not isinstance(one, Rejected)]
            texts = list(dict.fromkeys(text for one in kept for text in self.texts(one)))
            encodings = dict(zip(texts, self.tokenizer.encode(texts), strict=True))
            for one in batch:
                found = (
                    one.reason
                    if isinstance(one, Rejected)
                    else self.build(one, [encodings[text] for text in self.texts(one)])
                )
                if isinstance(found, str):
                    add_counts(self.counts, {"refused": {found: 1}})
                else:
                    assert not isinstance(one, Rejected)
                    yield from ((one, self._count(built)) for built in found)
                    add_counts(self.counts, {"windows": len(found) - 1})

    def _count(self, built: BuiltExample) -> BuiltExample:
        counts: dict[str, Any] = {"examples": 1, "tokens": len(built.columns["input_ids"])}
        counts |= {"labels": dict(built.labels), "notes": dict(built.notes)}
        if built.cut:
            counts |= {"truncated": 1, "truncated_tokens": built.cut}
        add_counts(self.counts, counts)
        return built

    def _columns(self, items: Sequence[Item], rows: Sequence[BuiltExample]) -> Rows:
        documents = [document_uid(self.corpus, self.source, "row", item.index) for item in items]
        uids = [
            hash64("task", uid, *item.overlap_texts, *([row.offset] if row.offset else []))
            for uid, item, row in zip(documents, items, rows, strict=True)
        ]
        zeros = {"variant": np.uint16, "copy": np.uint8, "part": np.uint8, "language": np.uint8}
        fixed: dict[str, Any] = {
            "uid": np.array(uids, np.uint64),
            "document_uid": np.frombuffer(b"".join(documents), np.uint8).reshape(-1, 16),
            "document_offset": np.array([row.offset for row in rows], np.uint32),
            **{name: np.zeros(len(items), dtype) for name, dtype in zeros.items()},
        }
        columns = {
            feature.name: Ragged.from_lists([row.columns[feature.name] for row in rows], self._dtype(feature))
            for feature in self.features(self.facts, self.form.frame)
        }
        return Rows(fixed, columns)

    def _dtype(self, feature: Feature) -> Any:
        return self.tokenizer.vocabulary.id_dtype if feature.dtype == "ids" else feature.dtype
