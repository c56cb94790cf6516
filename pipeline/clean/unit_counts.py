"""The account of one unit: every record is ignored, malformed, or a document; every document is kept or rejected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from clozeline.errors import IntegrityError
from clozeline.pipeline.clean.filters import Verdict
from clozeline.pipeline.execution.edit_samples import EditSamples, add_edit
from clozeline.pipeline.execution.unit_record import Counts, add_counts, require_equal
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import Rejection
from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.readers import Counted

_DISTINCT: Final = 20
"""Sets of keys that a unit names."""


def characters_of(document: Document) -> int:
    """Return the characters of a document, or of both sides of a pair."""
    return len(document.text) + len(document.target_text or "")


class CleanCounts(Counts, total=False):
    """Counts of units of `clean`; `dict` values are by reason, step, rule or language."""

    bytes_in: int
    """bytes of the input ranges"""
    bytes_owned: int
    """bytes of the files, from the first record of each range to that of the next"""
    bytes_decoded: int
    bytes_undecoded: dict[str, int]
    """bytes of the files that could not be decoded"""
    bytes_read_twice: int
    """bytes that records of two ranges claim"""
    content_bytes: int
    """bytes after decompression, ends of lines between records left out"""
    content_kept: int
    """bytes of the content in records that are documents"""
    content_skipped: dict[str, int]
    """bytes of the content in other records, and between records"""
    text_lacks: dict[str, int]
    """records without a text, and tables without its column, by the keys that they have; `no_text`, `text_type` and
    `schema` of `malformed` together"""
    first_records: dict[str, int]
    """files whose first record is malformed, by what is wrong"""
    without_records: dict[str, int]
    """bytes of the files in which no record was found, by source"""
    records_found: int
    """records that the format layer found"""
    records_given: int
    """records that the reader gave"""
    records_in: int
    """records given: ignored, malformed or a document"""
    ignored: dict[str, int]
    malformed: dict[str, int]
    notes: dict[str, int]
    """events that are not records, such as an empty file"""
    by_source: dict[str, dict[str, int]]
    """malformed records and notes of each file that has any"""
    rejected: dict[str, int]
    """documents left out"""
    characters_in: int
    characters_out: int
    characters_removed: dict[str, int]
    repairs: dict[str, int]
    edits: dict[str, int]
    """characters or lines that filters removed"""
    languages: dict[str, int]


def _zeros(malformed: Iterable[str], rejected: Iterable[str]) -> CleanCounts:
    return {
        "records_in": 0, "documents_in": 0, "documents_out": 0, "ignored": {}, "notes": {}, "by_source": {},
        "malformed": dict.fromkeys(malformed, 0), "rejected": dict.fromkeys(rejected, 0),
        "characters_in": 0, "characters_out": 0, "characters_removed": {}, "without_records": {},
        "bytes_undecoded": {}, "content_skipped": {},
    }  # fmt: skip


@dataclass
class UnitCounts:
    """Counts and rejections of a unit. Characters are counted from the text that a reader or extractor gave."""

    seed: int
    keep_text: float
    counts: CleanCounts = field(default_factory=lambda: _zeros((), ()))
    rejections: list[Rejection] = field(default_factory=list)
    edits: EditSamples = field(default_factory=dict)
    _uids: set[bytes] = field(default_factory=set)
    _source: str = ""
    _given: int = 0
    _taken: int = 0

    def open(self, source: str, malformed: Iterable[str], rejected: Iterable[str]) -> None:
        """Begin a file with a zero for everything that can happen, so that reports can say what did not."""
        self._source = source
        self.add(_zeros(malformed, rejected))

    @property
    def events(self) -> Mapping[str, int]:
        """Malformed records and notes of the file that was opened last, by reason."""
        return self.counts["by_source"].get(self._source, {})

    def add(self, more: CleanCounts) -> None:
        """Add to the counts."""
        add_counts(self.counts, more)

    def count(self, counted: Counted) -> None:
        """Count a record that gave no document, or a note, which is not about a record."""
        one = {counted.reason: 1}
        if counted.group == "note":
            self.add({"notes": one, "by_source": {self._source: one}})
        elif counted.group == "ignored":
            self.add({"ignored": one, "records_in": 1})
        else:
            self.add({"malformed": one, "records_in": 1, "by_source": {self._source: one}})
        if counted.lacks:
            known = self.counts.get("text_lacks", {})
            lacks = counted.lacks if counted.lacks in known or len(known) < _DISTINCT else "no such key in other rows"
            self.add({"text_lacks": {lacks: 1}})
        known = self.counts.get("first_records", {})
        if counted.detail and len(known) < _DISTINCT:
            self.add({"first_records": {f"{self._source}: {counted.detail}": 1}})
        self._given += counted.group != "note"
        self._taken += counted.bytes
        if counted.bytes:
            self.add({"content_skipped": {counted.reason: counted.bytes}})

    def enter(self, uid: bytes, source: str, locator: int, taken: int = 0) -> None:
        """Count a record that is a document; it takes `taken` bytes of the content.

        Raises:
            IntegrityError: another document of the unit has its uid.
        """
        if uid in self._uids:
            raise IntegrityError(f"{source}: two documents have the uid {uid.hex()}, the second at {locator}")
        self._uids.add(uid)
        self._given += 1
        self._taken += taken
        self.add({"records_in": 1, "documents_in": 1, "content_kept": taken})

    def settle(self, source: str, owned: int, account: Account) -> None:
        """Compare what was counted since the last call with what the format layer found in a range of a file.

        Args:
            source: the file.
            owned: bytes from the first record of the range to that of the next range.
            account: bytes and records found.

        Raises:
            IntegrityError: bytes or records are lost, or counted twice.
        """
        place = f"clean: {source}"
        content = account.content - account.separators
        decoded = account.decoded + sum(account.undecoded.values()) - account.read_twice
        require_equal(place, "bytes of the file", owned + account.beside, "bytes decoded + undecoded", decoded)
        require_equal(place, "bytes of content", content, "bytes of records + skipped", self._taken)
        require_equal(place, "records found", account.records, "records given by the reader", self._given)
        if owned and not account.records:
            self.add({"without_records": {source: owned}})
        self.add({
            "bytes_owned": owned + account.beside, "bytes_decoded": account.decoded,
            "bytes_read_twice": account.read_twice, "content_bytes": content,
            "records_found": account.records, "records_given": self._given,
        })  # fmt: skip
        if account.undecoded:
            self.add({"bytes_undecoded": account.undecoded})
        self._given = self._taken = 0

    def removed(self, step: str, characters: int) -> None:
        """Count characters that a step took out of a text; normalisation may also add some."""
        self.add({"characters_removed": {step: characters}})

    def edit(self, document: Document, name: str, verdict: Verdict) -> None:
        """Count what a filter took out of a document's text, and keep samples of it."""
        self.add({"edits": {f"{name}.{rule}": count for rule, count in verdict.removed.items()}})
        origin = document.url or f"{document.source} at {document.offset:,}"
        for rule, (before, after) in verdict.edits.items():
            add_edit(self.edits, f"{name}.{rule}", document.uid, origin, before, after)

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
