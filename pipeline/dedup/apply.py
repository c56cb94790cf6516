"""The last pass of `dedup`: rewrite each part once, without the duplicates that earlier passes found."""

from dataclasses import dataclass

from clozeline.pipeline.dedup.counts import DedupCounts, read_by
from clozeline.pipeline.dedup.removal import Removal, Removals
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import Output, require_equal
from clozeline.pipeline.ingest.documents.files import write_documents, write_rejects


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
        # drops of exact dedup are compared with the rejections themselves
        if taken := {exchange: rows for exchange, rows in removal.taken.items() if exchange != "exact-drops"}:
            counts["taken"] = read_by(self.name, taken)
        return counts
