"""The last pass of dedup: rewrite each part once, without the documents that any pass before dropped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.dedup.columns import uid_bytes, uid_column
from clozeline.pipeline.dedup.counts import DedupCounts, read_by
from clozeline.pipeline.dedup.parts import Parts
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output, add_counts, require_equal
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import Rejection, read_documents, write_documents, write_rejects

_Drops: TypeAlias = tuple[NDArray[np.bytes_], NDArray[np.bytes_]]
"""Uids of dropped documents, and the uid that is kept in place of each."""


def _nothing() -> DedupCounts:
    amounts: DedupCounts = {"documents_in": 0, "documents_out": 0, "characters_in": 0, "characters_out": 0}
    return {**amounts, "rejected": {}, "characters_removed": {}}


@dataclass
class _Split:
    """Documents of a part, split into kept and rejected ones, with the counts of both."""

    exact: dict[bytes, bytes]
    near: dict[bytes, bytes]
    seed: int
    rejections: list[Rejection] = field(default_factory=list)
    counts: DedupCounts = field(default_factory=_nothing)

    def kept(self, documents: Iterable[Document]) -> Iterator[Document]:
        for document in documents:
            characters = len(document.text) + len(document.target_text or "")
            add_counts(self.counts, {"documents_in": 1, "characters_in": characters})
            if document.uid in self.exact:
                # The copy that exact dedup kept may itself have a near-duplicate that is kept in its place.
                kept = self.exact[document.uid]
                self._reject(document, "exact_duplicate", self.near.get(kept, kept), characters)
            elif document.uid in self.near:
                self._reject(document, "near_duplicate", self.near[document.uid], characters)
            else:
                add_counts(self.counts, {"documents_out": 1, "characters_out": characters})
                yield document

    def _reject(self, document: Document, reason: str, kept: bytes, characters: int) -> None:
        self.rejections.append(Rejection.of(document, stage="dedup", reason=reason, detail=kept.hex(), seed=self.seed))
        add_counts(self.counts, {"rejected": {reason: 1}, "characters_removed": {reason: characters}})


@dataclass
class Apply(Pass[DedupCounts]):
    """Per part: documents that stay, in their order, and rejections that name the document kept in their place."""

    units: int
    parts: Parts
    exact: bool
    near: bool
    seed: int
    name: str = "main"

    def run(self, unit: int, output: Output) -> DedupCounts:
        """Write the documents and rejections of a part."""
        exact, near = self._drops(unit)
        split = _Split(_pairs(*exact), _pairs(*near), self.seed)
        documents = read_documents(self.parts.source(unit))
        with output.file(f"documents/{unit:06d}.arrow") as path:
            kept = write_documents(path, split.kept(documents))
        with output.file(f"rejects/{unit:06d}.arrow") as path:
            rejected = write_rejects(path, split.rejections)
        counts, where = split.counts, f"dedup: part {unit}"
        require_equal(where, "documents_out", counts["documents_out"], "documents written", kept)
        require_equal(where, "rejected", sum(counts["rejected"].values()), "rejections written", rejected)
        if self.near:
            counts["taken"] = read_by(self.name, {self.parts.near_drops.kind: len(near[0])})
        return counts

    def _drops(self, unit: int) -> tuple[_Drops, _Drops]:
        """Return the exact drops of this part, and the near ones of it and of what was kept."""
        none = uid_column([]), uid_column([])
        exact = self.parts.exact_drops(unit) if self.exact else none
        near = self.parts.near_drops_of(unit) if self.near else none
        return exact, near


def _pairs(dropped: NDArray[np.bytes_], kept: NDArray[np.bytes_]) -> dict[bytes, bytes]:
    return dict(zip(uid_bytes(dropped), uid_bytes(kept), strict=True))
