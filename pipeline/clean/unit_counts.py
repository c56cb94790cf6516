"""The account of one unit: every record is ignored, malformed, or a document; every document is kept or rejected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pipeline.documents.document import Document
from pipeline.documents.files import Rejection
from pipeline.errors import IntegrityError
from pipeline.execution.unit_record import Counts, add_counts
from pipeline.readers import Counted

__all__ = ["CleanCounts", "UnitCounts", "characters_of"]


def characters_of(document: Document) -> int:
    """Return the characters of a document, or of both sides of a pair."""
    return len(document.text) + len(document.target_text or "")


class CleanCounts(Counts, total=False):
    """Counts of units of `clean`; `dict` values are by reason, step, rule or language."""

    bytes_in: int
    """bytes of the input ranges"""
    records_in: int
    """records found: ignored, malformed or a document"""
    ignored: dict[str, int]
    malformed: dict[str, int]
    notes: dict[str, int]
    """events that are not records, such as an empty file"""
    bytes_skipped: dict[str, int]
    """bytes passed over without being read as a record"""
    rejected: dict[str, int]
    """documents left out"""
    characters_in: int
    characters_out: int
    characters_removed: dict[str, int]
    repairs: dict[str, int]
    edits: dict[str, int]
    """characters or lines that filters removed"""
    languages: dict[str, int]


@dataclass
class UnitCounts:
    """Counts and rejections of a unit. Characters are counted from the text that a reader or extractor gave."""

    seed: int
    keep_text: float
    counts: CleanCounts = field(default_factory=CleanCounts)
    rejections: list[Rejection] = field(default_factory=list)
    _uids: set[bytes] = field(default_factory=set)

    def open(self, malformed: Iterable[str], rejected: Iterable[str]) -> None:
        """Begin with a zero for everything that can happen, so that reports can say what did not."""
        self.counts = {
            "records_in": 0, "documents_in": 0, "documents_out": 0, "ignored": {}, "notes": {},
            "malformed": dict.fromkeys(malformed, 0), "rejected": dict.fromkeys(rejected, 0),
            "characters_in": 0, "characters_out": 0, "characters_removed": {},
        }  # fmt: skip

    def add(self, more: CleanCounts) -> None:
        """Add to the counts."""
        add_counts(self.counts, more)

    def count(self, counted: Counted) -> None:
        """Count a record that gave no document, or a note, which is not about a record."""
        one = {counted.reason: 1}
        if counted.group == "note":
            self.add({"notes": one})
        elif counted.group == "ignored":
            self.add({"ignored": one, "records_in": 1})
        else:
            self.add({"malformed": one, "records_in": 1})
        if counted.bytes:
            self.add({"bytes_skipped": {counted.reason: counted.bytes}})

    def enter(self, uid: bytes, source: str, locator: int) -> None:
        """Count a record that is a document.

        Raises:
            IntegrityError: another document of the unit has its uid.
        """
        if uid in self._uids:
            raise IntegrityError(f"{source}: two documents have the uid {uid.hex()}, the second at {locator}")
        self._uids.add(uid)
        self.add({"records_in": 1, "documents_in": 1})

    def removed(self, step: str, characters: int) -> None:
        """Count characters that a step took out of a text; normalisation may also add some."""
        self.add({"characters_removed": {step: characters}})

    def reject(self, document: Document, step: str, reason: str, detail: str = "") -> None:
        """Record a document that is left out, with the text it had at that step."""
        rejection = Rejection.of(
            document, stage="clean", reason=reason, detail=detail, keep_text=self.keep_text, seed=self.seed
        )
        self.rejections.append(rejection)
        self.add({"rejected": {reason: 1}})
        self.removed(step, characters_of(document))

    def keep(self, document: Document) -> None:
        """Count a document that passed all steps."""
        kept: CleanCounts = {"documents_out": 1, "characters_out": characters_of(document)}
        self.add({**kept, "languages": {document.language: 1}})
