"""Read WARC and WET files, plain or compressed: captured pages, and the texts of WET files."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import BinaryIO, ClassVar, Final

from clozeline.configuration.config import config_class
from clozeline.errors import StorageError
from clozeline.pipeline.ingest.documents.document import FLAG_TRUNCATED_SOURCE
from clozeline.pipeline.ingest.formats.charset import decode
from clozeline.pipeline.ingest.formats.content_sniffing import HTML_TYPES, contradicts_html, looks_like_html
from clozeline.pipeline.ingest.formats.decompression import Damage, decompress_members, detect_codec, find_member
from clozeline.pipeline.ingest.formats.http_message import content_type, parse_fields, parse_response
from clozeline.pipeline.ingest.formats.input_file import InputFile
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import Counted, Item, RawRecord

_START: Final = re.compile(rb"WARC/[01]\.\d{1,2}[ \t]*\r*\n")
_HEAD_END: Final = re.compile(rb"\n\r*\n")
_LINE_ENDS: Final = re.compile(rb"[\r\n]*")
_HEAD_BYTES: Final = 1 << 16
_START_BYTES: Final = 64
"""Bytes that hold the first line of a record, and the line ends before it."""
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_NAME: Final = re.compile(r"[\w.+/-]{1,60}")


class Warc:
    """Reads responses with status 200 and an HTML body, and conversion records (WET texts).

    After damage, reading continues at the next gzip member or line that starts a record. Memory is never allocated by
    the length in a header.
    """

    VERSION: ClassVar[int] = 5
    suffixes: ClassVar[tuple[str, ...]] = (".warc", ".wet")
    reasons: ClassVar[tuple[str, ...]] = (
        "bad_header", "bad_length", "bomb", "charset", "content_encoding", "damaged", "http", "too_large", "truncated",
    )  # fmt: skip

    @config_class
    class Options:
        """This reader has no options."""

    def __init__(self, options: Options, limits: Limits) -> None:
        self._limits = limits

    @staticmethod
    def splittable(head: bytes) -> bool:
        """Return whether records can be found from the middle of the file: in gzip and uncompressed files."""
        return detect_codec(head) in (None, "gzip")

    def first(self, path: InputFile, position: int) -> int:
        """Return the offset of the first record, in a gzip file of the first member, from `position` on."""
        size = path.stat().st_size
        if position in (0, size):
            return position
        with path.open("rb") as file:
            if _find_codec(file, path) == "gzip":
                member = find_member(file, "gzip", position, _START)
                return size if member is None else member
        # one byte earlier, because a record starts after a line end
        content = _Content(path, self._limits, position - 1, size)
        return content.at if content.seek(1) else size

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        """Yield the records that start (in gzip files: whose member starts) in [start, end)."""
        start, end = self.first(path, start), self.first(path, end)
        content = _Content(path, self._limits, start, end)
        while start < end and not content.is_over():
            locator, _ = content.locate()
            if _START.match(content.ahead):
                yield self._read_record(content)
            elif content.ahead:
                content.seek(1)
                yield Counted("note", "resync")
            elif (damage := content.pass_damage()) and damage.reason == "trailing_junk":
                yield Counted("note", "resync")
            elif damage:
                yield Counted("malformed", damage.reason, locator)

    def _read_record(self, content: "_Content") -> Item:
        """Pass the next record, and return what it gives."""
        (locator, kind), head = content.locate(), content.find_head_end()
        fields = parse_fields(content.ahead[:head], "utf-8")
        length, fault = _LENGTH.fullmatch(fields.get("content-length", "")), ""
        size = head + (int(length[0]) if length else 0)
        if "warc-type" not in fields:
            fault = "bad_header"
        elif length is None:
            fault = "bad_length"
        elif size - head > self._limits.record_bytes:
            fault = "too_large"
        # a length that is a little too small is accepted, as by warcio, if the record ends with the line
        elif not content.can_end(end := size) and not content.can_end(end := content.find_line_end(size)):
            fault = "bad_length"
        if fault:
            return Counted("malformed", content.pass_fault(fault, head, size), locator)
        payload = bytes(content.ahead[head:size])
        if end > size:
            fields.setdefault("warc-truncated", "length")
        content.drop(end)
        if kind == "warc-gz" and content.skip_line_ends() and (following := content.locate())[1] == kind:
            size = following[0] - locator
        return self._make_item(fields, payload, locator, kind, size)

    def _make_item(self, fields: Mapping[str, str], payload: bytes, locator: int, kind: str, stored: int) -> Item:
        name = fields["warc-type"].lower()
        is_page = name == "response"
        if not is_page and name != "conversion":
            return Counted("ignored", f"type_{_sanitize(name)}", locator)
        media, charset = content_type(fields.get("content-type"))
        try:
            found = self._decode_page(payload, media, charset) if is_page else decode(payload, charset)
        except Damage as damage:
            return Counted("malformed", damage.reason, locator)
        if found is None:
            return Counted("malformed", "charset", locator)
        if isinstance(found, Counted):
            return replace(found, locator=locator)
        text, flags = found
        flags |= FLAG_TRUNCATED_SOURCE if "warc-truncated" in fields else 0
        url = fields.get("warc-target-uri", "").strip("<> ") or None
        return RawRecord(locator, kind, stored, text, is_page, url, _parse_date(fields.get("warc-date", "")), flags)

    def _decode_page(self, payload: bytes, media: str, charset: str | None) -> tuple[str, int] | Counted | None:
        """Return HTML and flags of a captured response, or why it is no page; None if no encoding fits."""
        response, body, complete = parse_response(payload), payload, True
        if response is None and media.startswith("application/http"):
            return Counted("malformed", "http")
        if response is not None:
            if response.status != 200:
                return Counted("ignored", f"status_{response.status}")
            media, charset = content_type(response.headers.get("content-type"))
            body, complete = response.content(self._limits)
        if not body or body.isspace():
            return Counted("ignored", "empty_body")
        if media not in HTML_TYPES and not (media == "" and looks_like_html(body)):
            return Counted("ignored", f"mime_{_sanitize(media) if media else 'unknown'}")
        if contradicts_html(body):
            return Counted("ignored", "mime_contradicted")
        if (decoded := decode(body, charset, meta=True)) is None:
            return None
        return decoded[0], decoded[1] | (0 if complete else FLAG_TRUNCATED_SOURCE)


def _find_codec(file: BinaryIO, path: InputFile) -> str | None:
    """Return the compression of a file; that of its name if its first bytes are neither compressed nor a record."""
    head = file.read(_START_BYTES)
    return detect_codec(head) or ("gzip" if path.suffix == ".gz" and not head.startswith(b"WARC/") else None)


def _sanitize(name: str) -> str:
    """Return a name from the file in a form fit for a reason."""
    return name if _NAME.fullmatch(name) else "other"


def _parse_date(text: str) -> int | None:
    """Return the seconds since 1970 of a date, which may lack the time, in UTC if it names no zone."""
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp())


class _Content:
    """The content of a file from a record on; lengths and places are relative to `at`, the offset of the next byte."""

    def __init__(self, path: InputFile, limits: Limits, start: int, end: int) -> None:
        with path.open("rb") as file:
            self._codec = _find_codec(file, path)
        self._path, self._size, self._end = path, path.stat().st_size, end
        self._pieces = decompress_members(path, limits, start, self._codec)
        self._damage: Damage | None = None  # what follows `ahead`
        self.at = start if self._codec is None else 0
        self.ahead = bytearray()
        self._starts, self._members = [self.at], [start]  # of the members: in the content, and in the file

    def _fill(self) -> bool:
        """Read another piece; False at damage and at the end of the file."""
        if self._damage is not None:
            return False
        try:
            member, piece = next(self._pieces, (self._size, b""))
        except OSError as error:
            raise StorageError(f"{self._path}: cannot be read ({error.strerror or error})") from error
        if isinstance(piece, Damage):
            self._damage = piece
            return False
        if self._codec is not None and piece and member != self._members[-1]:
            self._starts.append(self.at + len(self.ahead))
            self._members.append(member)
        self.ahead += piece
        return bool(piece)

    def drop(self, length: int) -> None:
        self.at += min(length, len(self.ahead))
        del self.ahead[:length]
        index = bisect_right(self._starts, self.at) - 1
        del self._starts[:index], self._members[:index]

    def locate(self) -> tuple[int, str]:
        """Return locator and kind of what follows: the offset of its gzip member, else that in the content."""
        if self._codec != "gzip":
            return self.at, "warc"
        if not self.ahead:
            return self._size if self._damage is None else self._damage.member, "warc-gz"
        inner = self.at - self._starts[0]
        return self._members[0], f"warc-gz:{inner}" if inner else "warc-gz"

    def skip_line_ends(self) -> bool:
        """Skip line ends; False at damage."""
        while True:
            self.drop(_LINE_ENDS.match(self.ahead).end())  # type: ignore[union-attr]
            if self.ahead or not self._fill():
                return self._damage is None or bool(self.ahead)

    def is_over(self) -> bool:
        """Skip line ends, and return whether nothing more of the range follows."""
        self.skip_line_ends()
        if not self.ahead:
            return self._damage is None or self._damage.member >= self._end
        locator, kind = self.locate()
        return self._codec in (None, "gzip") and ":" not in kind and locator >= self._end

    def find_head_end(self) -> int:
        """Return where the header that follows ends; 0 if it has no end."""
        while (end := _HEAD_END.search(self.ahead, 0, _HEAD_BYTES)) is None:
            if len(self.ahead) >= _HEAD_BYTES or not self._fill():
                return 0
        return end.end()

    def find_line_end(self, place: int) -> int:
        """Return where the line of a place ends, if it is not long."""
        return self.ahead.find(b"\n", place, place + _HEAD_BYTES) + 1

    def can_end(self, place: int) -> bool:
        """Return whether a record can end there: before two line ends, another record or member, or the end."""
        while len(self.ahead) < place + _START_BYTES and self._fill():
            pass
        if not 0 < place <= len(self.ahead):
            return False
        rest = bytes(self.ahead[place : place + _START_BYTES])
        follows = rest.lstrip(b"\r\n")
        if not follows:  # the only record of a damaged member cannot be trusted
            return self._damage is None or (self.at, self._damage.member) != (self._starts[-1], self._members[-1])
        gap = len(rest) - len(follows)
        return (
            rest.startswith(b"\r\n\r\n")
            or follows.startswith(b"WARC/")
            or self._starts_member(place)
            or self._starts_member(place + gap)
        )

    def _starts_member(self, place: int) -> bool:
        return self.at + place in self._starts

    def seek(self, place: int) -> bool:
        """Go to the first line of a record from a place on; False before damage or the end."""
        while True:
            while (match := _START.search(self.ahead, place)) is not None:
                if self.ahead[match.start() - 1] == ord("\n") or self._starts_member(match.start()):
                    self.drop(match.start())
                    return True
                place = match.end()
            # the last bytes may begin a first line
            self.drop(max(place, len(self.ahead) - _START_BYTES) - 1)
            place = 1
            if not self._fill():
                self.drop(len(self.ahead))
                return False

    def pass_fault(self, fault: str, head: int, size: int) -> str:
        """Go to the record after one with a fault, and return its reason: what cuts a record takes precedence."""
        before = self.at
        if self.seek(head or 1):
            return "bad_length" if fault == "too_large" and self.at - before < size else fault
        if self._damage is not None and self._damage.reason != "trailing_junk":
            return self.pass_damage().reason  # type: ignore[union-attr]
        return "truncated" if not head or self.at - before < size else fault

    def pass_damage(self) -> Damage | None:
        """Go to the content after the damage, and return it."""
        damage, self._damage = self._damage, None
        return damage
