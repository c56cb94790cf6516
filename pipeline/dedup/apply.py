"""The last pass of dedup: rewrite each part once, without the documents that any pass before dropped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.dedup.columns import uid_bytes, uid_column
from pipeline.dedup.counts import DedupCounts
from pipeline.dedup.parts import Parts
from pipeline.documents.document import Document
from pipeline.documents.files import Rejection, read_batches, read_documents, write_documents, write_rejects
from pipeline.execution.stage import Pass
from pipeline.execution.unit_record import Output, add_counts

__all__ = ["Apply"]


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
        split = _Split(*self._drops(unit), self.seed)
        documents = read_documents(self.parts.source(unit))
        with output.file(f"documents/{unit:06d}.arrow") as path:
            write_documents(path, split.kept(documents))
        with output.file(f"rejects/{unit:06d}.arrow") as path:
            write_rejects(path, split.rejections)
        return split.counts

    def _drops(self, unit: int) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
        """Return dropped uid → kept uid: exact ones of this part, near ones of it and of what was kept."""
        uids = [uid_column([])]
        if self.near:
            batches = read_batches(self.parts.source(unit), ("uid",))
            uids += [uid_column(batch.column("uid").to_pylist()) for batch in batches]
        exact: dict[bytes, bytes] = {}
        if self.exact:
            dropped, kept = self.parts.exact_drops(unit)
            exact = dict(zip(uid_bytes(dropped), uid_bytes(kept), strict=True))
            uids.append(kept)
        return exact, self._near_drops(np.concatenate(uids)) if self.near else {}

    def _near_drops(self, wanted: NDArray[np.bytes_]) -> dict[bytes, bytes]:
        drops = self.parts.read("near-drops", 0)
        if not len(drops["uid"]):
            return {}
        rows = np.minimum(np.searchsorted(drops["uid"], wanted), len(drops["uid"]) - 1)
        rows = rows[drops["uid"][rows] == wanted]
        return dict(zip(uid_bytes(drops["uid"][rows]), uid_bytes(drops["kept"][rows]), strict=True))
