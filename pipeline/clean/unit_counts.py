"""Counts of a unit of `clean`.

Each record is ignored, malformed or a document; each document is kept or rejected.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from clozeline.errors import IntegrityError, plural
from clozeline.pipeline.execution.unit_record import Counts, add_counts
from clozeline.pipeline.ingest.documents.document import (
    FLAG_DECODED_BY_GUESS,
    FLAG_REPLACEMENTS,
    Document,
)
from clozeline.pipeline.ingest.documents.files import Rejection
from clozeline.pipeline.ingest.formats.decompression import explain_lost
from clozeline.pipeline.ingest.readers import SkippedRecord

_MOST_EXAMPLES: Final = 3
"""Rejected documents of each reason whose text is stored, whatever `clean.keep_text` is."""
_MOST_LISTED: Final = 100
"""Maximum malformed records that get a row in `rejects/`, per unit and reason."""


class CleanCounts(Counts, total=False):
    """Counts of a unit of `clean`; dictionaries are by reason, step, rule or language."""

    bytes_in: int  # bytes of the input ranges
    without_records: dict[str, int]  # bytes of input files without any record, per source
    bytes_lost: dict[str, int]  # undecodable bytes of compressed input files, per source
    records_in: int  # records that are ignored, malformed, excluded or a document
    ignored: dict[str, int]  # records that are no texts, such as requests and headers
    excluded: dict[str, int]
    malformed: dict[str, int]
    malformed_bytes: dict[str, int]  # their stored bytes, where the reader knows them
    excluded_by: dict[str, int]
    """documents and input ranges that were skipped, by the line number of `exclude`"""
    files_skipped: dict[str, int]  # files that folders skip by their names, by suffix
    notes: dict[str, int]  # events that are not records, such as an empty file
    by_source: dict[str, dict[str, int]]  # malformed records and notes, per file
    rejected: dict[str, int]  # rejected documents
    characters_in: int  # of texts in stored form, before languages are identified
    cut: dict[str, int]  # characters removed by edits or with rejected documents, by step
    characters_out: int
    text_bytes: int
    """bytes of the texts as UTF-8, with which `encode` chooses its number of shards"""
    repairs: dict[str, int]
    normalized: dict[str, int]
    """characters that the stored form dropped or rewrote, by type of change"""
    edits: dict[str, int]  # characters or lines that filters removed
    languages: dict[str, int]


@dataclass
class UnitCounts:
    """Counts and rejections of a unit."""

    seed: int
    keep_text: float
    left: int | None = None
    """documents that may still be read; None: all"""
    counts: CleanCounts = field(default_factory=CleanCounts)
    rejections: list[Rejection] = field(default_factory=list)
    _uids: set[bytes] = field(default_factory=set)
    _read: Counter[str] = field(default_factory=Counter)
    """documents by source"""
    _lost: Counter[str] = field(default_factory=Counter)
    """malformed records by source, except those with a blank text"""
    _faults: dict[str, str] = field(default_factory=dict)
    """the first malformed record of each source that has some"""
    _source: str = ""

    def __post_init__(self) -> None:
        self.start_file("", (), ())

    def start_file(self, source: str, malformed: Iterable[str], rejected: Iterable[str]) -> None:
        """Start a file, with a zero for every possible reason, so that reports show all of them."""
        self._source = source
        self.add(
            {
                "records_in": 0,
                "documents_in": 0,
                "documents_out": 0,
                "ignored": {},
                "notes": {},
                "by_source": {},
                "malformed": dict.fromkeys(malformed, 0),
                "rejected": dict.fromkeys(rejected, 0),
                "characters_in": 0,
                "cut": {},
                "characters_out": 0,
                "without_records": {},
            }
        )

    @property
    def events(self) -> Mapping[str, int]:
        """Malformed records and notes of the current file, by reason."""
        return self.counts["by_source"].get(self._source, {})

    def add(self, more: CleanCounts) -> None:
        add_counts(self.counts, more)

    def note(self, event: str) -> None:
        """Count an event of the current file that does not concern a record."""
        self.add({"notes": {event: 1}, "by_source": {self._source: {event: 1}}})

    def count(self, skipped: SkippedRecord) -> None:
        """Count a record without a document, or a note.

        The first malformed records of each reason are listed in `rejects/`.
        """
        if skipped.group == "note":
            self.note(skipped.reason)
            return

        reason = {skipped.reason: 1}
        if skipped.group == "ignored":
            self.add({"ignored": reason, "records_in": 1})
            return

        self.add({"malformed": reason, "records_in": 1, "by_source": {self._source: reason}})

        line = f"line {skipped.line:,}: " if skipped.line else ""
        detail = line + (skipped.detail or explain_lost(skipped.lost_bytes))
        if skipped.reason != "empty":
            self._lost[self._source] += 1
            self._faults.setdefault(self._source, f"{skipped.reason}: {detail}")
        if self.counts["malformed"][skipped.reason] <= _MOST_LISTED:
            self.rejections.append(
                Rejection.from_record(self._source, skipped.locator, skipped.reason, detail)
            )

        if skipped.size:
            self.add({"malformed_bytes": {skipped.reason: skipped.size}})
        if skipped.lost_bytes:
            self.add({"bytes_lost": {self._source: skipped.lost_bytes}})

    def explain_losses(self) -> list[str]:
        """Return which files lost more than half of their rows, and the first fault of each.

        Rows with a blank text are no loss.
        """
        return [
            f"{source}: {lost:,} of {plural(lost + self._read[source], 'row')} cannot be read; "
            f"first {self._faults[source]}"
            for source, lost in self._lost.items()
            if lost > self._read[source]
        ]

    def add_document(self, document: Document, source: str, locator: int) -> None:
        """Count a record that is a document; raise IntegrityError if its uid is not unique."""
        uid = document.uid
        if uid in self._uids:
            raise IntegrityError(
                f"{source}: two documents have the uid {uid.hex()}, the second at {locator}; "
                "name each input once, and each file of exported documents"
            )
        self._uids.add(uid)
        self._read[source] += 1
        by_source = {"documents": {document.source_group: 1}}
        self.add({"records_in": 1, "documents_in": 1, "sources": by_source})

    def reject(self, document: Document, reason: str, detail: str = "", step: str = "") -> None:
        """Record a rejected document, with its text at that step, whose characters are cut."""
        # the first ones have a text in any case, unless none shall be stored
        is_first = self.counts["rejected"].get(reason, 0) < _MOST_EXAMPLES
        share = 1 if is_first and self.keep_text else self.keep_text
        self.rejections.append(
            Rejection.from_document(document, "clean", reason, detail, share, self.seed)
        )
        self.add({"rejected": {reason: 1}})
        if step:
            self.add({"cut": {step: document.characters}})

    def count_kept(self, document: Document) -> None:
        self.add(
            {
                "documents_out": 1,
                "characters_out": document.characters,
                "text_bytes": len((document.text + (document.target_text or "")).encode()),
                "languages": {document.language: 1},
                "sources": {"kept": {document.source_group: 1}},
            }
        )

        for flag, repair in (
            (FLAG_DECODED_BY_GUESS, "encoding_guessed"),
            (FLAG_REPLACEMENTS, "characters_replaced"),
        ):
            if document.flags & flag:
                self.add({"repairs": {repair: 1}})
