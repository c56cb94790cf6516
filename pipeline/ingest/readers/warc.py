"""WARC, WET and ARC files, plain or compressed: captured pages, and the texts of a WET file."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Final

from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.pipeline.ingest.documents.document import FLAG_TRUNCATED_SOURCE
from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.charset import decode
from clozeline.pipeline.ingest.formats.content_sniffing import HTML_TYPES, contradicts_html, looks_like_html
from clozeline.pipeline.ingest.formats.decompression import REASONS, Damage, detect_codec
from clozeline.pipeline.ingest.formats.http_message import content_type, parse_response
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.formats.record_stream import DamagedMember, RecordStream, find_record, open_record_stream
from clozeline.pipeline.ingest.readers import Counted, Item, RawRecord

# Text mode on Windows makes `\r\r\n` of `\r\n`.
_WARC: Final = rb"WARC/[01]\.\d{1,2}[ \t]*\r*\n"
# URL, address, date, type, in version 2 five more fields, length.
# Some URLs hold blanks; the address that follows says where they end.
_ARC: Final = (
    rb"[A-Za-z][A-Za-z0-9+.-]{1,20}:[^\r\n]{0,4000}? "
    rb"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]{1,40}|-) "
    rb"\d{12,20} \S{1,200}(?: \S{1,200}){0,5}? \S{1,19}\r*\n"
)
_START: Final = re.compile(rb"(?:%s|%s)" % (_WARC, _ARC))
_NEXT: Final = re.compile(rb"(?<=\n)(?:%s|%s)" % (_WARC, _ARC))
_HEAD_END: Final = re.compile(rb"\n\r*\n")
_RECORD_END: Final = re.compile(rb"\r+\n\r+\n")
_HEAD_BYTES: Final = 1 << 16
_LOOK_AHEAD: Final = 1 << 13
"""Longer than any first line of a record."""
_NAME: Final = re.compile(r"[\w.+/-]{1,60}")


@plain_dataclass(frozen=True, slots=True)
class _Head:
    """The header of a record: `size` counts its own bytes; `length` is None where it is not a number."""

    kind: str
    size: int
    length: int | None
    url: str | None
    date: int | None
    media: str
    charset: str | None
    truncated: bool = False
    text_mode: bool = False
    r"""its lines end in `\r\r\n`, so its content has grown since its length was counted"""


class Warc:
    """Reads responses with status 200 and an HTML body, and conversion records (WET texts).

    Reading continues after any damage: in gzip files at the next member that begins like a record, elsewhere
    at the next line that does. Nothing is allocated from a length that a header claims.
    """

    VERSION: ClassVar[int] = 3
    suffixes: ClassVar[tuple[str, ...]] = (".warc", ".wet", ".arc")
    reasons: ClassVar[tuple[str, ...]] = (
        *REASONS, "bad_header", "bad_length", "charset", "content_encoding", "http", "not_gzip", "too_large",
    )  # fmt: skip

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """None: a capture describes itself."""

    def __init__(self, options: Options, limits: Limits) -> None:
        self._limits = limits

    @staticmethod
    def splittable(head: bytes) -> bool:
        """Return whether records can be found from the middle of the file: gzip members and plain records can."""
        return detect_codec(head) in (None, "gzip")

    def first(self, path: Path, position: int) -> int:
        """Return the offset of the first record (of a gzip file: member) at a position or after it."""
        size = path.stat().st_size
        if position in (0, size):
            return position
        member = find_record(path, position, self._limits, _begins_record)
        if member is not None:
            return member
        # One byte earlier: a record begins after the end of a line.
        stream = open_record_stream(path, position - 1, self._limits, _begins_record, Account())
        dropped, found = _seek(stream)
        return position - 1 + dropped if found else size

    def read(self, path: Path, start: int, end: int, account: Account) -> Iterator[Item]:
        """Yield records whose first byte (in gzip files: whose member's first byte) lies in [start, end)."""
        size = path.stat().st_size
        start, end = self.first(path, start), self.first(path, end)
        if start < end:
            stream = open_record_stream(path, start, self._limits, _begins_record, account)
            stop = yield from self._records(stream, end, size)
            stream.close(stop, end)

    def _records(self, stream: RecordStream, end: int, size: int) -> Generator[Item, None, int]:
        """Yield the items up to a record that begins at `end` or later; return the offset where reading ended."""
        shared = False
        while True:
            if not _at_content(stream):
                damaged = stream.damaged
                if damaged is None:
                    return size
                if damaged.member >= end:
                    if stream.abandoned is not None:
                        yield _lost(stream, damaged)
                    return damaged.member
                found = stream.resync(end)
                yield _lost(stream, damaged)
                if not found:
                    return end
                continue
            place = stream.position()
            if stream.is_beyond(place, end):
                return stream.locate(place)
            if place.inner and stream.kind == "warc-gz" and not shared:
                shared = True
                yield Counted("note", "records_share_gzip_member")
            yield from self._next(stream, size)

    def _next(self, stream: RecordStream, size: int) -> Iterator[Item]:
        if _START.match(stream.ahead) is None:
            yield Counted("note", "resync", _seek(stream)[0])
            return
        stream.account.records += 1
        head = _head(stream)
        if head is None:
            if _is_cut(stream):
                stream.abandon()
            else:
                yield Counted("malformed", "bad_header", _seek(stream)[0])
            return
        problem = self._problem(stream, head)
        if isinstance(problem, Counted):
            yield problem
        elif problem is not None:
            place, whole = stream.position(), head.size + (head.length or 0)
            payload = bytes(stream.ahead[head.size : whole + (problem if head.text_mode else 0)])
            stream.drop(whole + problem)
            if problem:
                payload = payload.replace(b"\r\r\n", b"\r\n") if head.text_mode else payload
                head = replace(head, truncated=head.truncated or not head.text_mode)
                yield Counted("note", "short_length", problem)
            length = _stored_length(stream, place.member, size) if place.inner == 0 else None
            kind = stream.kind if place.inner == 0 or stream.kind == "warc" else f"{stream.kind}:{place.inner}"
            item = self._item(head, payload, stream.locate(place), kind, length or whole)
            yield replace(item, bytes=whole) if isinstance(item, Counted) else replace(item, span=whole)

    def _problem(self, stream: RecordStream, head: _Head) -> Counted | int | None:
        """Return why the record ahead cannot be used, with the stream at the next one.

        An integer: it can be used; so many bytes after it belong to it, though its length leaves them out. None: damage
        cuts the record, which is counted with the damage.
        """
        if head.length is None:
            return Counted("malformed", "bad_length", _seek(stream)[0])
        if head.length > self._limits.record_bytes:
            dropped, found = _seek(stream)
            if stream.damaged is not None and not found:
                stream.abandon(dropped)
                return None
            return Counted("malformed", "too_large" if found and dropped >= head.length else "bad_length", dropped)
        whole = head.size + head.length
        stream.ensure(whole + _LOOK_AHEAD)
        # Nothing vouches for the only record of a damaged member.
        alone = stream.is_at_damaged_member() and _NEXT.search(stream.ahead, whole - 1) is None
        if alone or (len(stream.ahead) < whole and _is_cut(stream)):
            stream.abandon()
            return None
        if len(stream.ahead) >= whole and _ends_well(stream, whole):
            return 0
        if len(stream.ahead) >= whole and (rest := _rest_of_line(stream, head.size, whole)):
            return rest
        if head.text_mode and (end := _next_start(stream, whole, self._limits.record_bytes)):
            return end - whole
        cut = len(stream.ahead) < whole and stream.kind == "warc" and _NEXT.search(stream.ahead, head.size) is None
        return Counted("malformed", "truncated" if cut else "bad_length", _seek(stream, head.size)[0])

    def _item(self, head: _Head, payload: bytes, locator: int, kind: str, length: int) -> Item:
        if head.kind == "conversion":
            decoded = decode(payload, head.charset)
            if decoded is None:
                return Counted("malformed", "charset", length)
            text, flags = decoded
            return RawRecord(locator, kind, length, text, False, head.url, head.date, flags | _flag(head))
        if head.kind != "response":
            return Counted("ignored", f"type_{_safe(head.kind)}", length)
        try:
            page = self._page(head, payload)
        except Damage as damage:
            return Counted("malformed", damage.reason, length)
        if isinstance(page, Counted):
            return page
        text, flags = page
        return RawRecord(locator, kind, length, text, True, head.url, head.date, flags | _flag(head))

    def _page(self, head: _Head, payload: bytes) -> tuple[str, int] | Counted:
        """Return HTML and flags of a captured response."""
        response = parse_response(payload)
        if response is None and head.media.startswith("application/http"):
            return Counted("malformed", "http", len(payload))
        media, charset, body, whole = head.media, head.charset, payload, True
        if response is not None:
            if response.status != 200:
                return Counted("ignored", f"status_{response.status}")
            media, charset = content_type(response.headers.get("content-type"))
            body, whole = response.content(self._limits)
        if not body.strip():
            return Counted("ignored", "empty_body")
        if media not in HTML_TYPES and not (media == "" and looks_like_html(body)):
            return Counted("ignored", f"mime_{_safe(media) if media else 'unknown'}")
        if contradicts_html(body):
            return Counted("ignored", "mime_contradicted")
        decoded = decode(body, charset, meta=True)
        if decoded is None:
            return Counted("malformed", "charset", len(payload))
        return decoded[0], decoded[1] | (0 if whole else FLAG_TRUNCATED_SOURCE)


def _lost(stream: RecordStream, damaged: DamagedMember) -> Counted:
    """Return what damage costs: the record that it cuts, or, between records of a gzip file, nothing but garbage."""
    content, stream.abandoned = stream.abandoned, None
    if content is None and damaged.reason == "not_gzip" and damaged.member > 0:
        return Counted("note", "resync")
    if content is None:
        stream.account.records += 1
    return Counted("malformed", damaged.reason, content or 0)


def _is_cut(stream: RecordStream) -> bool:
    """Return whether damage cuts the record ahead: no other one begins between it and the damage."""
    return stream.damaged is not None and _NEXT.search(stream.ahead, 1) is None


def _flag(head: _Head) -> int:
    return FLAG_TRUNCATED_SOURCE if head.truncated else 0


def _safe(name: str) -> str:
    """Return a name from the file in a form that a reason may hold: short, letters and digits only."""
    return name if _NAME.fullmatch(name) else "other"


def _begins_record(content: bytes) -> bool:
    return content.startswith((b"WARC/", b"filedesc://")) or _START.match(content) is not None


def _at_content(stream: RecordStream) -> bool:
    """Pass over line ends between records; False at the end of the stream."""
    while stream.ensure(1):
        blank = len(stream.ahead) - len(stream.ahead.lstrip(b"\r\n"))
        stream.drop(blank)
        stream.account.separators += blank
        if stream.ahead:
            stream.ensure(_LOOK_AHEAD)
            return True
    return False


def _seek(stream: RecordStream, skip: int = 1) -> tuple[int, bool]:
    """Drop `skip` bytes or more, up to the next line that begins a record; return how many, and whether one does."""
    dropped = 0
    while True:
        found = _NEXT.search(stream.ahead, skip)
        if found is not None and (found.end() < len(stream.ahead) or not stream.fill()):
            stream.drop(found.start())
            return dropped + found.start(), True
        if found is None:
            # What stays may hold the beginning of a first line.
            surplus = max(0, len(stream.ahead) - _LOOK_AHEAD)
            stream.drop(surplus)
            dropped, skip = dropped + surplus, max(0, skip - surplus)
            if not stream.fill():
                dropped += len(stream.ahead)
                stream.drop(len(stream.ahead))
                return dropped, False


def _ends_well(stream: RecordStream, at: int) -> bool:
    """Return whether a record may end there: line ends, the end of the file or member, or the next record follow."""
    rest = bytes(stream.ahead[at : at + _LOOK_AHEAD])
    follows = rest.lstrip(b"\r\n")
    blank = len(rest) - len(follows)
    # The first line of the next record may be cut.
    cut = blank > 0 and b"\n" not in follows and len(rest) < _LOOK_AHEAD
    return (
        not follows
        or cut
        or _RECORD_END.match(rest) is not None
        or _START.match(follows) is not None
        or stream.is_boundary(at)
        or stream.is_boundary(at + blank)
    )


def _rest_of_line(stream: RecordStream, start: int, at: int) -> int:
    """Return the bytes up to the end of a line, where a record with a length a little too small ends; else 0.

    As in warcio, such a record is kept. Its payload from `start` to `at` must hold no beginning of another one.
    """
    end = stream.ahead.find(b"\n", at, at + _LOOK_AHEAD) + 1
    if not end or _NEXT.search(stream.ahead, start, at) is not None:
        return 0
    return end - at if _ends_well(stream, end) else 0


def _next_start(stream: RecordStream, start: int, most: int) -> int:
    """Return the bytes up to the next record at `start` or later, or the end of the file; 0 where neither is near."""
    while (found := _NEXT.search(stream.ahead, start)) is None:
        if len(stream.ahead) > most:
            return 0
        start = max(start, len(stream.ahead) - _LOOK_AHEAD)
        if not stream.fill():
            return 0 if stream.damaged else len(stream.ahead)
    return found.start()


def _stored_length(stream: RecordStream, member: int, size: int) -> int | None:
    """Return the stored bytes of a gzip member that holds the record just passed and nothing else."""
    if stream.kind != "warc-gz":
        return None
    if not _at_content(stream):
        return size - member if stream.damaged is None else None
    place = stream.position()
    return place.member - member if place.inner == 0 else None


def _head(stream: RecordStream) -> _Head | None:
    """Return the header ahead without dropping it; None where it has no end or lacks a required field."""
    if not stream.ahead.startswith(b"WARC/"):
        return _arc_head(bytes(stream.ahead[:_LOOK_AHEAD]))
    end = _HEAD_END.search(stream.ahead, 0, _HEAD_BYTES)
    while end is None and len(stream.ahead) < _HEAD_BYTES and stream.fill():
        end = _HEAD_END.search(stream.ahead, 0, _HEAD_BYTES)
    if end is None:
        return None
    content = stream.ahead[: end.start()].replace(b"\r", b"").decode("utf-8", "replace")
    lines = re.sub(r"\n[ \t]+", " ", content).split("\n")[1:]
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "warc-type" not in fields:
        return None
    media, charset = content_type(fields.get("content-type"))
    return _Head(
        kind=fields["warc-type"].lower(),
        size=end.end(),
        length=_number(fields.get("content-length", "")),
        url=fields.get("warc-target-uri", "").strip("<> ") or None,
        date=_seconds(re.sub(r"\D", "", fields.get("warc-date", ""))),
        media=media,
        charset=charset,
        truncated="warc-truncated" in fields,
        text_mode=stream.ahead[: end.start()].count(b"\r\r\n") > 0,
    )


def _arc_head(line: bytes) -> _Head | None:
    line = line[: line.index(b"\n") + 1]
    fields = line.decode("utf-8", "replace").split()
    at = next(i for i in range(2, len(fields)) if fields[i].isdigit() and len(fields[i]) >= 12)
    url, date, media, length = " ".join(fields[: at - 1]), fields[at], fields[at + 1], fields[-1]
    kind = "filedesc" if url.startswith("filedesc:") else "response" if url.startswith("http") else "other"
    return _Head(
        kind, len(line), _number(length), url, _seconds(date), "" if media == "no-type" else media.lower(), None
    )


def _number(digits: str) -> int | None:
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None


def _seconds(digits: str) -> int | None:
    """Return seconds since 1970 of YYYYMMDDhhmmss (more digits are fractions); None where it is not a date."""
    try:
        return int(datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None
