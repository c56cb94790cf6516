"""The account of one unit: every record is ignored, malformed, or a document; every document is kept or rejected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pipeline.documents.document import Document
from pipeline.documents.files import Rejection
from pipeline.errors import IntegrityError
from pipeline.execution.unit_record import Counts, add_counts
from pipeline.readers import Counted

__all__ = ["UnitCounts", "characters_of"]


def characters_of(document: Document) -> int:
    """Characters of a document, or of both sides of a pair."""
    return len(document.text) + len(document.target_text or "")


@dataclass
class UnitCounts:
    """Counts and rejections of a unit. Characters are counted from the text that a reader or extractor gave."""

    seed: int
    keep_text: float
    counts: Counts = field(default_factory=dict)
    rejections: list[Rejection] = field(default_factory=list)
    _uids: set[bytes] = field(default_factory=set)

    def open(self, malformed: Iterable[str], rejected: Iterable[str]) -> None:
        """Begin with a zero for everything that can happen, so that reports can say what did not."""
        self.counts = {
            "records_in": 0, "documents_in": 0, "documents_out": 0, "ignored": {}, "notes": {},
            "malformed": dict.fromkeys(malformed, 0), "rejected": dict.fromkeys(rejected, 0),
            "characters_in": 0, "characters_out": 0, "characters_removed": {},
        }  # fmt: skip

    def add(self, **more: int | dict[str, int]) -> None:
        """Add to the counts."""
        add_counts(self.counts, more)

    def count(self, counted: Counted) -> None:
        """A record that gave no document, or a note that is no record."""
        group = "notes" if counted.group == "note" else counted.group
        self.add(**{group: {counted.reason: 1}}, records_in=int(counted.group != "note"))
        if counted.bytes:
            self.add(bytes_skipped={counted.reason: counted.bytes})

    def enter(self, uid: bytes, source: str, locator: int) -> None:
        """A record that is a document.

        Raises:
            IntegrityError: another document of the unit has its uid.
        """
        if uid in self._uids:
            raise IntegrityError(f"{source}: two documents have the uid {uid.hex()}, the second at {locator}")
        self._uids.add(uid)
        self.add(records_in=1, documents_in=1)

    def removed(self, step: str, characters: int) -> None:
        """Characters that a step took out of a text; normalisation may also add some."""
        self.add(characters_removed={step: characters})

    def reject(self, document: Document, step: str, reason: str, detail: str = "") -> None:
        """A document left out, with the text it had at that step."""
        rejection = Rejection.of(
            document, stage="clean", reason=reason, detail=detail, keep_text=self.keep_text, seed=self.seed
        )
        self.rejections.append(rejection)
        self.add(rejected={reason: 1})
        self.removed(step, characters_of(document))

    def keep(self, document: Document) -> None:
        """A document that goes on."""
        self.add(documents_out=1, characters_out=characters_of(document), languages={document.language: 1})
