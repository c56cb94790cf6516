"""The last pass of `dedup`: rewrite each part once, without the duplicates that earlier passes found."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from clozeline.pipeline.dedup.columns import uid_bytes
from clozeline.pipeline.dedup.counts import DedupCounts, read_by
from clozeline.pipeline.dedup.parts import Parts
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output, add_counts, require_equal
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import Rejection, read_documents, write_documents, write_rejects


class _Split:
    """Splits the documents of a part into kept and rejected ones, and counts both; drops map uids to kept uids."""

    def __init__(self, exact: dict[bytes, bytes], near: dict[bytes, bytes], seed: int) -> None:
        self.exact, self.near, self.seed = exact, near, seed
        self.rejections: list[Rejection] = []
        self.counts: DedupCounts = {
            "documents_in": 0, "documents_out": 0, "characters_in": 0, "characters_out": 0, "rejected": {},
            "characters_removed": {},
        }  # fmt: skip

    def keep(self, documents: Iterable[Document]) -> Iterator[Document]:
        for document in documents:
            characters = len(document.text) + len(document.target_text or "")
            add_counts(self.counts, {"documents_in": 1, "characters_in": characters})
            if document.uid in self.exact:
                # the copy that exact dedup kept may itself have been dropped for a near-duplicate
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
    """Per part: write the kept documents in their order, and rejections that name the document kept instead."""

    units: int
    parts: Parts
    exact: bool
    near: bool
    seed: int
    name: str = "main"

    def run(self, unit: int, output: Output) -> DedupCounts:
        exact, _ = self._read_drops("exact-drops", unit) if self.exact else ({}, 0)
        near, rows = self._read_drops("near-drops", unit) if self.near else ({}, 0)
        split = _Split(exact, near, self.seed)
        documents = read_documents(self.parts.source(unit))
        with output.file(f"documents/{unit:06d}.arrow") as path:
            kept = write_documents(path, split.keep(documents))
        with output.file(f"rejects/{unit:06d}.arrow") as path:
            rejected = write_rejects(path, split.rejections)
        counts, where = split.counts, f"dedup: part {unit}"
        require_equal(where, "documents_out", counts["documents_out"], "documents written", kept)
        require_equal(where, "rejected", sum(counts["rejected"].values()), "rejections written", rejected)
        if self.near:
            counts["taken"] = read_by(self.name, {"near-drops": rows})
        return counts

    def _read_drops(self, exchange: str, unit: int) -> tuple[dict[bytes, bytes], int]:
        """Return the kept uid of each dropped one, and the number of rows, which may repeat a uid."""
        dropped, kept = map(uid_bytes, self.parts.drops(exchange, unit))
        return dict(zip(dropped, kept, strict=True)), len(dropped)
