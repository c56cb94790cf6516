"""Find the documents of a stage by part; rewrite them without the dropped ones, and count both."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from clozeline.pipeline.execution.equations import Equation
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import (
    Counts,
    Output,
    add_counts,
)
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import (
    Rejection,
    documents_name,
    read_documents,
    rejects_name,
    write_documents,
    write_rejects,
)
from clozeline.recorded_file import RecordedFile, find_file


def find_documents(folder: Path, part: str) -> RecordedFile:
    """Return the documents of a part that the stage in a folder wrote."""
    return find_file(folder, f"main/{part}", documents_name(part))


def open_documents(inputs: UnitInputs, part: str) -> RecordedFile:
    """Return the documents of a part that a stage reads."""
    return inputs.file("documents", "main", part, documents_name(part))


Decision: TypeAlias = Callable[[int, Document], Document | Rejection | None]
"""Function of a document and its row in the part; it returns the document, edited or not, or its
rejection; None for a document that was only compared with others."""


REWRITE_EQUATIONS: Final = (
    Equation(["documents_in"], ["documents_out", "rejected", "for_comparison"], unit="document"),
    Equation(["characters_in"], ["characters_out", "cut"], unit="character"),
)
"""Every document is kept, rejected or only compared, and every character is kept or cut."""


class RewriteCounts(Counts, total=False):
    """Counts of a stage that drops or edits documents."""

    rejected: dict[str, int]
    """dropped documents, by reason"""
    for_comparison: int
    """documents of inputs with `role: compare`"""
    characters_in: int
    cut: dict[str, int]
    """characters of dropped documents, by reason, and characters cut out of others, as `edited`"""
    characters_out: int


def rewrite_part(
    output: Output, part: str, source: RecordedFile, decide: Decision
) -> RewriteCounts:
    """Write the kept documents of a part in order, and the rejections."""
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
            decision = decide(row, document)
            add_counts(counts, {"documents_in": 1, "characters_in": document.characters})
            if decision is None:
                add_counts(
                    counts, {"for_comparison": 1, "cut": {"for_comparison": document.characters}}
                )
            elif isinstance(decision, Rejection):
                reason = decision.reason
                rejections.append(decision)
                add_counts(counts, {"rejected": {reason: 1}, "cut": {reason: document.characters}})
            else:
                if edited := document.characters - decision.characters:
                    add_counts(counts, {"cut": {"edited": edited}})
                by_source = {f"after {output.folder.name}": {decision.source_group: 1}}
                add_counts(
                    counts,
                    {
                        "documents_out": 1,
                        "characters_out": decision.characters,
                        "sources": by_source,
                    },
                )
                yield decision

    with output.file(documents_name(part)) as path:
        write_documents(path, iter_kept())
    with output.file(rejects_name(part)) as path:
        write_rejects(path, rejections)
    return counts
