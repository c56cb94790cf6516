"""Remove from the documents of a part what passes decided: duplicate documents, then repeated pieces of texts."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from clozeline.pipeline.dedup.parts import PIECE_DROP, DedupCounts, Parts
from clozeline.pipeline.dedup.repeats import Pieces
from clozeline.pipeline.dedup.rows import read_rows, uid_bytes
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output, add_counts, require_equal
from clozeline.pipeline.ingest.documents.document import FLAG_SPANS_REMOVED, Document
from clozeline.pipeline.ingest.documents.files import Rejection, read_documents, write_documents, write_rejects
from clozeline.pipeline.text.text_statistics import TextStatistics


@dataclass(frozen=True)
class Removals:
    """Types of duplicates to remove, in this order: `exact`, `near`, then each type of pieces."""

    parts: Parts
    exact: bool
    near: bool
    pieces: tuple[Pieces, ...]
    seed: int

    def before(self, pieces: Pieces) -> "Removals":
        """Return the types that are removed before these pieces are looked at."""
        return replace(self, pieces=self.pieces[: self.pieces.index(pieces)])

    def documents(self, part: int) -> Iterator[tuple[int, Document]]:
        """Yield the row in the part and the rest of each document that stays."""
        return Removal(self, part).documents()


@dataclass
class Removal:
    """Documents of a part without the duplicates, and counts of both."""

    removals: Removals
    part: int
    rejections: list[Rejection] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counts: DedupCounts = {
            "documents_in": 0, "documents_out": 0, "characters_in": 0, "characters_out": 0, "rejected": {},
            "characters_removed": {},
        }  # fmt: skip
        self._exact = self._read_drops("exact-drops") if self.removals.exact else {}
        self._near = self._read_drops("near-drops") if self.removals.near else {}
        # runs of units by type of pieces and row of the document
        self._runs = {pieces.NAME: self._read_runs(pieces.NAME) for pieces in self.removals.pieces}

    def documents(self) -> Iterator[tuple[int, Document]]:
        """Yield the row in the part and the rest of each document that stays, in order."""
        for row, document in enumerate(read_documents(self.removals.parts.source(self.part))):
            characters = document.characters
            add_counts(self.counts, {"documents_in": 1, "characters_in": characters})
            if document.uid in self._exact:
                # the copy that exact dedup kept may itself have been dropped for a near-duplicate
                kept = self._exact[document.uid]
                self._reject(document, "exact_duplicate", self._near.get(kept, kept).hex(), characters)
            elif document.uid in self._near:
                self._reject(document, "near_duplicate", self._near[document.uid].hex(), characters)
            elif (rest := self._without_pieces(row, document)) is not None:
                add_counts(self.counts, {"documents_out": 1, "characters_out": rest.characters})
                yield row, rest

    def _without_pieces(self, row: int, document: Document) -> Document | None:
        """Return the document without repeated pieces; None if nothing is left of it."""
        text, removed = document.text, dict[str, int]()
        for pieces in self.removals.pieces:
            if not (runs := self._runs[pieces.NAME].get(row)):
                continue
            left = pieces.cut(text, document.language, runs)
            if not left:
                detail = f"{len(runs):,} repeated {pieces.NAME}"
                self._reject(document, f"repeated_{pieces.NAME}", detail, len(document.text))
                return None
            removed[pieces.NAME] = len(text) - len(left)
            text = left
        if not removed:
            return document
        changes: Any = {"characters_removed": removed, "edits": removed, "edited": 1}
        add_counts(self.counts, changes)
        return document.replace_text(text, TextStatistics(text).words, flags=document.flags | FLAG_SPANS_REMOVED)

    def _reject(self, document: Document, reason: str, detail: str, characters: int) -> None:
        seed = self.removals.seed
        self.rejections.append(Rejection.of(document, stage="dedup", reason=reason, detail=detail, seed=seed))
        add_counts(self.counts, {"rejected": {reason: 1}, "characters_removed": {reason: characters}})

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

    def count_pieces(self) -> DedupCounts:
        """Return the pieces that were read to be removed, by type."""
        runs = {name: sum(map(len, by_row.values())) for name, by_row in self._runs.items()}
        return {"pieces": {name: {"applied": number} for name, number in runs.items()}} if runs else {}


@dataclass
class Apply(Pass[DedupCounts]):
    """Per part: write the rest of the documents in their order, and rejections that name the document kept instead."""

    units: int
    removals: Removals
    name: str = "main"

    def run(self, unit: int, output: Output) -> DedupCounts:
        removal = Removal(self.removals, unit)
        with output.file(f"documents/{unit:06d}.arrow") as path:
            kept = write_documents(path, (document for _, document in removal.documents()))
        with output.file(f"rejects/{unit:06d}.arrow") as path:
            rejected = write_rejects(path, removal.rejections)
        counts, where = removal.counts, f"dedup: part {unit}"
        require_equal(where, "documents_out", counts["documents_out"], "documents written", kept)
        require_equal(where, "rejected", sum(counts["rejected"].values()), "rejections written", rejected)
        return counts | removal.count_pieces()
