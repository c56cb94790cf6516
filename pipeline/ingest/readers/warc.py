"""Read WARC and WET files, compressed or not: captured pages, and the texts of WET files."""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

from clozeline.pipeline.ingest.documents.document import FLAG_TRUNCATED_SOURCE, RECORD_ID
from clozeline.pipeline.ingest.formats.charset import decode
from clozeline.pipeline.ingest.formats.dates import parse_date
from clozeline.pipeline.ingest.formats.decompression import (
    Damage,
    InputFile,
    decompress_members,
    detect_codec,
    find_member,
    open_input,
)
from clozeline.pipeline.ingest.formats.http_message import (
    explain_not_html,
    parse_content_type,
    parse_fields,
    parse_response,
    reason_name,
)
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers import Item, RawRecord, Reader, SkippedRecord

_START: Final = re.compile(rb"WARC/[01]\.\d{1,2}[ \t]*\r*\n")
_HEAD_END: Final = re.compile(rb"\n\r*\n")
_LINE_ENDS: Final = re.compile(rb"[\r\n]*")
_HEAD_BYTES: Final = 1 << 16
_START_BYTES: Final = 64
"""Bytes that hold the first line of a record and the line ends before it."""
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_READ_TYPES: Final = frozenset({"response", "resource", "conversion"})
"""Types of records with a page or a text."""
_PART_FIELDS: Final = ("warc-truncated", "warc-segment-number")
"""Fields of a record with partial content: it was cut, or a `continuation` record follows."""
_TEXT_TYPES: Final = frozenset({"text/plain", "text/markdown"})


class WarcReader(Reader):
    """Reads HTML pages of responses, resources and conversions, and texts of conversions (WET).

    After damage, reading continues at the next gzip member or at the next line that starts a
    record. A length in a header never determines how much memory is allocated. `extra` holds the
    record id as `id`.
    """

    VERSION = 9
    suffixes = (".warc", ".wet")
    start = rb"WARC/"
    reasons = (
        "bad_header",
        "bad_length",
        "bomb",
        "charset",
        "content_encoding",
        "damaged",
        "http",
        "too_large",
        "truncated",
    )

    @staticmethod
    def is_splittable(head: bytes) -> bool:
        """Return whether records can be found from the middle: in gzip and uncompressed files."""
        return detect_codec(head) in (None, "gzip")

    def find_first_record(self, path: InputFile, position: int) -> int:
        """Return the offset of the first record (in gzip: member) from `position` on."""
        size = path.stat().st_size
        if position in (0, size):
            return position
        if _find_codec(path) == "gzip":
            with open_input(path) as file:
                return find_member(file, "gzip", position, _START) or size
        # one byte earlier, because a record starts after a line end
        content = _WarcContent(path, self._limits, position - 1)
        return content.at if content.seek(1) else size

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        """Yield the records that start in [start, end); in gzip, whose member starts there."""
        start = self.find_first_record(path, start)
        end = self.find_first_record(path, end)
        content = _WarcContent(path, self._limits, start)

        while start < end:
            content.skip_line_ends()
            content.fill(_START_BYTES)
            locator, locator_type = content.locate()

            if not content.ahead:
                damage = content.pass_damage()
                if damage is None or damage.member >= end:
                    return
                is_junk = damage.reason == "trailing_junk"
                yield (
                    SkippedRecord("note", "resync")
                    if is_junk
                    else SkippedRecord.from_damage(damage, locator)
                )
            elif locator >= end and locator_type == content.splittable_kind:
                return
            elif _START.match(content.ahead):
                yield self._read_record(content, locator, locator_type)
            else:
                content.seek(1)
                yield SkippedRecord("note", "resync")

    def _read_record(self, content: "_WarcContent", locator: int, locator_type: str) -> Item:
        """Move behind the next record, and return its item."""
        while (head_end := _HEAD_END.search(content.ahead, 0, _HEAD_BYTES)) is None:
            if len(content.ahead) >= _HEAD_BYTES or not content.fill(len(content.ahead) + 1):
                break

        head = head_end.end() if head_end else 0
        fields = parse_fields(content.ahead[:head], "utf-8")
        length = _LENGTH.fullmatch(fields.get("content-length", ""))
        fault = ""
        size = end = head + (int(length[0]) if length else 0)

        if "warc-type" not in fields:
            fault = "bad_header"
        elif length is None:
            fault = "bad_length"
        elif size - head > self._limits.record_bytes:
            fault = "too_large"
        elif not content.can_end(size):
            # a length that is a little too small is accepted, as by warcio, if the record ends with
            # the line
            end = content.ahead.find(b"\n", size, size + _HEAD_BYTES) + 1
            fault = "" if content.can_end(end) else "bad_length"

        if fault:
            return SkippedRecord.from_damage(content.pass_fault(fault, head, size), locator)

        payload = bytes(content.ahead[head:size])
        if end > size:
            fields.setdefault("warc-truncated", "length")
        content.drop(end)

        if (
            locator_type == "warc-gz"
            and content.skip_line_ends()
            and (following := content.locate())[1] == locator_type
        ):
            size = following[0] - locator

        return self._make_item(fields, payload, locator, locator_type, size)

    def _make_item(
        self,
        fields: Mapping[str, str],
        payload: bytes,
        locator: int,
        locator_type: str,
        stored: int,
    ) -> Item:
        """Return the page of a response or resource, or the text of a conversion (WET)."""
        name = fields["warc-type"].lower()
        if name not in _READ_TYPES:
            return SkippedRecord("ignored", f"type_{reason_name(name)}", locator)
        is_complete = fields.keys().isdisjoint(_PART_FIELDS)
        media, charset = parse_content_type(fields.get("content-type"))
        body = payload

        is_message = name == "response" or media.startswith("application/http")

        try:
            response = parse_response(payload, self._limits) if is_message else None
        except Damage as damage:
            return SkippedRecord("malformed", damage.reason, locator)

        if response is not None:
            if not response.is_page:
                return SkippedRecord("ignored", f"status_{response.status}", locator)
            media, charset = parse_content_type(response.headers.get("content-type"))
            body = response.body
            is_complete = is_complete and response.is_complete
        elif media.startswith("application/http"):
            return SkippedRecord("malformed", "http", locator)

        why = explain_not_html(media, body)
        # a tool made a text of the page, unless the record says that it is a page
        is_text = (
            response is None
            and name == "conversion"
            and (media in _TEXT_TYPES or (not media and bool(why)))
        )
        if why and not is_text:
            return SkippedRecord("ignored", why, locator)
        if (decoded := decode(body, charset, meta=not is_text)) is None:
            return SkippedRecord("malformed", "charset", locator)

        text, flags = decoded
        flags |= 0 if is_complete else FLAG_TRUNCATED_SOURCE
        url = fields.get("warc-target-uri", "").strip("<> ") or None
        record_id = fields.get("warc-record-id", "").strip()
        return RawRecord(
            locator,
            locator_type,
            stored,
            text,
            not is_text,
            url,
            parse_date(fields.get("warc-date", "")),
            flags,
            extra={RECORD_ID: record_id} if record_id else {},
        )


def _find_codec(path: InputFile) -> str | None:
    """Return the compression of a file by its first bytes.

    The name decides if they are neither compressed nor a record.
    """
    with open_input(path) as file:
        head = file.read(_START_BYTES)
    return detect_codec(head) or (
        "gzip" if path.suffix == ".gz" and not head.startswith(b"WARC/") else None
    )


class _WarcContent:
    """The content of a file from a record on.

    Lengths and positions are relative to `at`, the offset of the next byte.
    """

    def __init__(self, path: InputFile, limits: InputLimits, start: int) -> None:
        self._codec = _find_codec(path)
        self.splittable_kind = {None: "warc", "gzip": "warc-gz"}.get(self._codec)
        self._size = path.stat().st_size
        self._pieces = decompress_members(path, limits, start, self._codec)
        self._damage: Damage | None = None  # the damage behind `ahead`
        self.at = start if self._codec is None else 0
        self.ahead = bytearray()
        self._members = deque([(self.at, start)])  # offsets in the content and in the file

    def fill(self, length: int) -> bool:
        """Read until `length` bytes are ahead; return False at damage or at the end of the file."""
        while len(self.ahead) < length:
            if self._damage is not None:
                return False
            member, piece = next(self._pieces, (self._size, b""))
            if isinstance(piece, Damage):
                self._damage = piece
            elif not piece:
                return False
            else:
                if self._codec is not None and member != self._members[-1][1]:
                    self._members.append((self.at + len(self.ahead), member))
                self.ahead += piece

        return True

    def drop(self, length: int) -> None:
        self.at += min(length, len(self.ahead))
        del self.ahead[:length]
        while len(self._members) > 1 and self._members[1][0] <= self.at:
            self._members.popleft()

    def locate(self) -> tuple[int, str]:
        """Return the locator of the next bytes and its type: a gzip member, or an offset."""
        if self._codec != "gzip":
            return self.at, "warc"
        if not self.ahead:
            return self._size if self._damage is None else self._damage.member, "warc-gz"
        start, member = self._members[0]
        return member, f"warc-gz:{self.at - start}" if self.at > start else "warc-gz"

    def skip_line_ends(self) -> bool:
        """Skip line ends; return False at damage."""
        while True:
            self.drop(_LINE_ENDS.match(self.ahead).end())  # type: ignore[union-attr]
            if self.ahead or not self.fill(1):
                return self._damage is None or bool(self.ahead)

    def can_end(self, position: int) -> bool:
        """Return whether a record can end at a position.

        Two line ends, another record or member, or the end of the file must follow.
        """
        self.fill(position + _START_BYTES)
        if not 0 < position <= len(self.ahead):
            return False
        rest = bytes(self.ahead[position : position + _START_BYTES])
        follows = rest.lstrip(b"\r\n")
        if not follows:  # the only record of a damaged member cannot be trusted
            return self._damage is None or self._members[-1] != (self.at, self._damage.member)
        if rest.startswith(b"\r\n\r\n") or follows.startswith(b"WARC/"):
            return True
        return self._starts_member(position) or self._starts_member(
            position + len(rest) - len(follows)
        )

    def _starts_member(self, position: int) -> bool:
        return any(self.at + position == start for start, _ in self._members)

    def seek(self, position: int) -> bool:
        """Move to the first line of a record from a position on; return False if there is none."""
        while True:
            while (match := _START.search(self.ahead, position)) is not None:
                if self.ahead[match.start() - 1] == ord("\n") or self._starts_member(match.start()):
                    self.drop(match.start())
                    return True
                position = match.end()
            # the last bytes may be the start of a first line
            self.drop(max(position, len(self.ahead) - _START_BYTES) - 1)
            position = 1
            if not self.fill(len(self.ahead) + 1):
                self.drop(len(self.ahead))
                return False

    def pass_fault(self, fault: str, head: int, size: int) -> Damage:
        """Move behind a record with a fault, and return it, or the damage that cuts the record."""
        before = self.at
        if self.seek(head or 1):
            return Damage(
                "bad_length" if fault == "too_large" and self.at - before < size else fault
            )
        if self._damage is not None and self._damage.reason != "trailing_junk":
            damage = self._damage
            self._damage = None
            return damage
        return Damage("truncated" if not head or self.at - before < size else fault)

    def pass_damage(self) -> Damage | None:
        """Move behind the damage and return it."""
        damage = self._damage
        self._damage = None
        return damage
