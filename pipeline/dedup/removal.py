"""Remove from the documents of a part what passes decided: duplicate documents, then repeated pieces of texts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from clozeline.pipeline.dedup.parts import PIECE_DROP, DedupCounts, Parts, PieceCounts
from clozeline.pipeline.dedup.repeats import Pieces
from clozeline.pipeline.dedup.rows import read_rows, uid_bytes
from clozeline.pipeline.execution.rewritten_documents import rewrite_part
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output, add_counts
from clozeline.pipeline.ingest.documents.document import FLAG_SPANS_REMOVED, Document
from clozeline.pipeline.ingest.documents.files import Rejection, read_documents
from clozeline.pipeline.text.normal_form import NormalForm
from clozeline.pipeline.text.text_statistics import TextStatistics


@dataclass(frozen=True)
class Removals:
    """Types of duplicates to remove, in this order: `exact`, `near`, then each type of pieces."""

    parts: Parts
    exact: bool
    near: bool
    pieces: tuple[Pieces, ...]
    seed: int
    forms: Mapping[str, NormalForm] = field(default_factory=dict)
    """stored form of texts, by source group, where it is not that of prose"""

    def before(self, pieces: Pieces) -> "Removals":
        """Return the types that are removed before these pieces are looked at."""
        return replace(self, pieces=self.pieces[: self.pieces.index(pieces)])

    def documents(self, part: int) -> Iterator[tuple[int, Document]]:
        """Yield the row in the part and the rest of each document that stays."""
        removal = Removal(self, part)
        for row, document in enumerate(read_documents(self.parts.source(part))):
            if isinstance(left := removal.decide(row, document), Document):
                yield row, left


@dataclass
class Removal:
    """Decides what is left of the documents of a part, and counts what it cuts out of those that stay."""

    removals: Removals
    part: int

    def __post_init__(self) -> None:
        self.counts: DedupCounts = {"edited": 0, "edits": {}}
        self._exact = self._read_drops("exact-drops") if self.removals.exact else {}
        self._near = self._read_drops("near-drops") if self.removals.near else {}
        # runs of units by type of pieces and row of the document
        self._runs = {pieces.NAME: self._read_runs(pieces.NAME) for pieces in self.removals.pieces}

    def decide(self, row: int, document: Document) -> Document | Rejection:
        """Return the rest of a document that stays, or the rejection of another one, by its row in the part."""
        if (kept := self._exact.get(document.uid)) is not None:
            # the copy that exact dedup kept may itself have been dropped for a near-duplicate
            return self._reject(document, "exact_duplicate", self._near.get(kept, kept).hex())
        if (kept := self._near.get(document.uid)) is not None:
            return self._reject(document, "near_duplicate", kept.hex())
        return self._without_pieces(row, document)

    def _without_pieces(self, row: int, document: Document) -> Document | Rejection:
        """Return the document without repeated pieces, or its rejection if nothing is left of it."""
        text, removed = document.text, dict[str, int]()
        form = self.removals.forms.get(document.source_group, "prose")
        for pieces in self.removals.pieces:
            if not (runs := self._runs[pieces.NAME].get(row)):
                continue
            left = pieces.cut(text, document.language, runs, form)
            if not left:
                detail = f"{len(runs):,} repeated {pieces.NAME}"
                return self._reject(document, f"repeated_{pieces.NAME}", detail)
            removed[pieces.NAME] = len(text) - len(left)
            text = left
        if not removed:
            return document
        add_counts(self.counts, {"edits": removed, "edited": 1})
        return document.replace_text(text, TextStatistics(text).words, flags=document.flags | FLAG_SPANS_REMOVED)

    def _reject(self, document: Document, reason: str, detail: str) -> Rejection:
        return Rejection.of(document, stage="dedup", reason=reason, detail=detail, seed=self.removals.seed)

    def _read_drops(self, kind: str) -> dict[bytes, bytes]:
        """Return the kept uid of each dropped one; rows of near drops may repeat a uid."""
        dropped, kept = map(uid_bytes, self.removals.parts.drops(kind, self.part))
        return dict(zip(dropped, kept, strict=True))

    def _read_runs(self, name: str) -> dict[int, list[tuple[int, int]]]:
        parts = self.removals.parts
        rows = np.sort(read_rows(parts.folder, parts.shuffle(f"{name}-drops"), self.part, PIECE_DROP))
        runs: dict[int, list[tuple[int, int]]] = {}
        for row, first, last in rows.tolist():
            runs.setdefault(row, []).append((first, last))
        return runs

    def count_pieces(self) -> dict[str, PieceCounts]:
        """Return the pieces that were read to be removed, by type."""
        return {name: {"applied": sum(map(len, by_row.values()))} for name, by_row in self._runs.items()}


@dataclass
class Apply(Pass[DedupCounts]):
    """Per part: write the rest of the documents in their order, and rejections that name the document kept instead."""

    units: int
    removals: Removals
    name: str = "main"

    def run(self, unit: int, output: Output) -> DedupCounts:
        removal = Removal(self.removals, unit)
        rewritten = rewrite_part(output, unit, self.removals.parts.source(unit), removal.decide)
        counts: DedupCounts = {}
        if self.removals.pieces:
            counts = {**removal.counts, "pieces": removal.count_pieces()}
        add_counts(counts, rewritten)
        return counts
