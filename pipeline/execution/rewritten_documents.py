"""Rewrite the documents of a part without those that a stage drops, and count what goes in and out."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from clozeline.pipeline.execution.equations import Equation
from clozeline.pipeline.execution.unit_record import Counts, Output, add_counts, require_equal
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import (
    Rejection,
    read_documents,
    write_documents,
    write_rejects,
)
from clozeline.recorded_file import RecordedFile

Decision: TypeAlias = Callable[[int, Document], Document | Rejection]
"""Maps the row of a document in its part, and the document, to what is left of it, or to its
rejection."""


REWRITE_EQUATIONS: Final = (
    Equation(["documents_in"], ["documents_out", "rejected"], unit="document"),
    Equation(["characters_in"], ["characters_out", "cut"], unit="character"),
)
"""Every document is kept or rejected, and every character handed on or cut."""


class RewriteCounts(Counts, total=False):
    """Counts of a stage that drops or edits documents."""

    rejected: dict[str, int]  # dropped documents, by reason
    characters_in: int
    cut: dict[
        str, int
    ]  # characters of dropped documents, by reason, and those cut out of others, as `edited`
    characters_out: int


def rewrite_part(
    output: Output, unit: int, source: RecordedFile, decide: Decision
) -> RewriteCounts:
    """Write what `decide` leaves of the documents of a part, in their order, and the rejections."""
    counts: RewriteCounts = {
        "documents_in": 0,
        "documents_out": 0,
        "characters_in": 0,
        "cut": {},
        "characters_out": 0,
        "rejected": {},
    }
    rejections = list[Rejection]()

    def iter_kept() -> Iterator[Document]:
        for row, document in enumerate(read_documents(source)):
            left = decide(row, document)
            add_counts(counts, {"documents_in": 1, "characters_in": document.characters})
            if isinstance(left, Rejection):
                rejections.append(left)
                add_counts(
                    counts,
                    {"rejected": {left.reason: 1}, "cut": {left.reason: document.characters}},
                )
            else:
                if edited := document.characters - left.characters:
                    add_counts(counts, {"cut": {"edited": edited}})
                add_counts(counts, {"documents_out": 1, "characters_out": left.characters})
                yield left

    with output.file(f"documents/{unit:06d}.arrow") as path:
        kept = write_documents(path, iter_kept())
    with output.file(f"rejects/{unit:06d}.arrow") as path:
        rejected = write_rejects(path, rejections)
    where = f"{output.folder.name}: part {unit}"
    require_equal(where, "documents_out", counts["documents_out"], "documents written", kept)
    require_equal(
        where, "rejected", sum(counts["rejected"].values()), "rejections written", rejected
    )
    return counts
