"""WARC, WET and ARC files, plain or compressed: captured pages, and the texts of a WET file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass as plain_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Final

from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.documents.document import FLAG_TRUNCATED_SOURCE
from pipeline.formats.charset import decode
from pipeline.formats.content_sniffing import HTML_TYPES, contradicts_html, looks_like_html
from pipeline.formats.decompression import REASONS, Damage, detect_codec
from pipeline.formats.http_message import content_type, parse_response
from pipeline.formats.limits import Limits
from pipeline.formats.record_stream import Damaged, RecordStream, open_record_stream
from pipeline.readers import Counted, Item, RawRecord

__all__ = ["Warc"]

_WARC: Final = rb"WARC/[01]\.\d{1,2}[ \t]*\r?\n"
# URL, address, date, type, in version 2 five more fields, length.
# Some URLs hold blanks; the address behind it makes sure where they end.
_ARC: Final = (
    rb"[A-Za-z][A-Za-z0-9+.-]{1,20}:[^\r\n]{0,4000}? "
    rb"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]{1,40}|-) "
    rb"\d{12,20} \S{1,200}(?: \S{1,200}){0,5}? \S{1,19}\r?\n"
)
_START: Final = re.compile(rb"(?:%s|%s)" % (_WARC, _ARC))
_NEXT: Final = re.compile(rb"(?<=\n)(?:%s|%s)" % (_WARC, _ARC))
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
_HEAD_BYTES: Final = 1 << 16
_LOOK_AHEAD: Final = 1 << 13
"""Longer than any first line of a record."""
_DAMAGED: Final = Counted("malformed", "damaged")
"""Stands for a record that the tape's own damage cuts; it is counted when the tape is put on again."""
_NAME: Final = re.compile(r"[\w.+/-]{1,60}")


@plain_dataclass(frozen=True, slots=True)
class _Head:
    """What the header of a record says; `size` is its own bytes, `length` None where it is no number."""

    kind: str
    size: int
    length: int | None
    url: str | None
    date: int | None
    media: str
    charset: str | None
    truncated: bool = False


class Warc:
    """Reads responses with status 200 and an HTML body, and conversion records (WET texts).

    Records are found again behind any damage: in gzip files at the next member that begins like a record, elsewhere
    at the next line that does. Nothing is allocated from a length that a header claims.
    """

    VERSION: ClassVar[int] = 1
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
        """Gzip members and plain records can be found from the middle of a file."""
        return detect_codec(head) in (None, "gzip")

    def read(self, path: Path, start: int, end: int) -> Iterator[Item]:
        """Records whose first byte (in gzip files: whose member's first byte) lies in [start, end)."""
        size = path.stat().st_size
        tape = open_record_stream(path, start, self._limits, _begins_record)
        if start > 0 and not (tape.resync(start, end) if tape.kind == "warc-gz" else _seek(tape) is not None):
            return
        shared = False
        while True:
            if not _at_content(tape):
                if tape.damaged is None or tape.damaged.member >= end:
                    return
                counted, found = _recover(tape, tape.damaged, min(end, size))
                yield counted
                if not found:
                    return
                continue
            place = tape.place()
            if tape.is_beyond(place, end):
                return
            if place.inner and tape.kind == "warc-gz" and not shared:
                shared = True
                yield Counted("note", "records_share_gzip_member")
            yield from self._next(tape, size)

    def _next(self, tape: RecordStream, size: int) -> Iterator[Item]:
        if _START.match(tape.ahead) is None:
            yield Counted("note", "resync", _seek(tape) or 0)
            return
        head = _head(tape)
        if head is None:
            if tape.damaged is None:
                yield Counted("malformed", "bad_header", _seek(tape) or 0)
            else:
                tape.drop(len(tape.ahead))
            return
        problem = self._problem(tape, head)
        if problem is _DAMAGED:
            tape.drop(len(tape.ahead))
        elif problem is not None:
            yield problem
        else:
            place, whole = tape.place(), head.size + (head.length or 0)
            payload = bytes(tape.ahead[head.size : whole])
            tape.drop(whole)
            length = _stored_length(tape, place.member, size) if place.inner == 0 else None
            kind = tape.kind if place.inner == 0 or tape.kind == "warc" else f"{tape.kind}:{place.inner}"
            yield self._item(head, payload, tape.file_offset(place), kind, length or whole)

    def _problem(self, tape: RecordStream, head: _Head) -> Counted | None:
        """Why the record ahead cannot be taken; the tape then stands at the next one, unless it is `_DAMAGED`."""
        if head.length is None:
            return Counted("malformed", "bad_length", _seek(tape) or 0)
        if head.length > self._limits.record_bytes:
            dropped = _seek(tape)
            if tape.damaged is not None and not tape.ahead:
                return _DAMAGED
            honest = dropped is not None and dropped >= head.length
            return Counted("malformed", "too_large" if honest else "bad_length", dropped or 0)
        whole = head.size + head.length
        tape.ensure(whole + _LOOK_AHEAD)
        if tape.damaged and tape.damaged.member <= tape.place(whole - 1).member:
            return _DAMAGED
        if len(tape.ahead) >= whole and _ends_well(tape, whole):
            return None
        cut = len(tape.ahead) < whole and tape.kind == "warc" and _NEXT.search(tape.ahead, head.size) is None
        return Counted("malformed", "truncated" if cut else "bad_length", _seek(tape, head.size) or 0)

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
        """HTML and flags of a captured response.

        Raises:
            Damage: its encoding does not decode.
        """
        response = parse_response(payload)
        if response is None and head.media.startswith("application/http"):
            return Counted("malformed", "http", len(payload))
        media, charset, body = head.media, head.charset, payload
        if response is not None:
            if response.status != 200:
                return Counted("ignored", f"status_{response.status}")
            media, charset = content_type(response.headers.get("content-type"))
            body = response.content(self._limits)
        if not body.strip():
            return Counted("ignored", "empty_body")
        if media not in HTML_TYPES and not (media == "" and looks_like_html(body)):
            return Counted("ignored", f"mime_{_safe(media) if media else 'unknown'}")
        if contradicts_html(body):
            return Counted("ignored", "mime_contradicted")
        return decode(body, charset, meta=True) or Counted("malformed", "charset", len(payload))


def _recover(tape: RecordStream, damaged: Damaged, end: int) -> tuple[Counted, bool]:
    """Go on behind damage, if anything follows; what is between is one lost record, or mere garbage."""
    found = tape.resync(damaged.member + 1, end)
    lost = max(0, (tape.place().member if found else end) - damaged.member)
    if damaged.reason == "not_gzip" and damaged.member > 0:
        return Counted("note", "resync", lost), found
    return Counted("malformed", damaged.reason, lost), found


def _flag(head: _Head) -> int:
    return FLAG_TRUNCATED_SOURCE if head.truncated else 0


def _safe(name: str) -> str:
    """A name from the file as part of a reason: short and plain, so that reports stay so too."""
    return name if _NAME.fullmatch(name) else "other"


def _begins_record(content: bytes) -> bool:
    return content.startswith((b"WARC/", b"filedesc://")) or _START.match(content) is not None


def _at_content(tape: RecordStream) -> bool:
    """Pass over line ends between records; False at the end of the tape."""
    while tape.ensure(1):
        blank = len(tape.ahead) - len(tape.ahead.lstrip(b"\r\n"))
        tape.drop(blank)
        if tape.ahead:
            tape.ensure(_LOOK_AHEAD)
            return True
    return False


def _seek(tape: RecordStream, skip: int = 1) -> int | None:
    """Drop at least `skip` bytes, up to the next line that begins a record; how many, or None at the tape's end."""
    dropped = 0
    while True:
        found = _NEXT.search(tape.ahead, skip)
        if found is not None and (found.end() < len(tape.ahead) or not tape.fill()):
            tape.drop(found.start())
            return dropped + found.start()
        if found is None:
            # What stays may hold the beginning of a first line.
            surplus = max(0, len(tape.ahead) - _LOOK_AHEAD)
            tape.drop(surplus)
            dropped, skip = dropped + surplus, max(0, skip - surplus)
            if not tape.fill():
                tape.drop(len(tape.ahead))
                return None


def _ends_well(tape: RecordStream, at: int) -> bool:
    """Whether a record may end there: line ends, the end of the file or member, or the next record follow."""
    rest = bytes(tape.ahead[at : at + _LOOK_AHEAD])
    follows = rest.lstrip(b"\r\n")
    return (
        not follows
        or rest.startswith(b"\r\n\r\n")
        or _START.match(follows) is not None
        or (tape.kind == "warc-gz" and tape.place(at).inner == 0)
    )


def _stored_length(tape: RecordStream, member: int, size: int) -> int | None:
    """Bytes of a gzip member that holds the record just passed and nothing else."""
    if tape.kind != "warc-gz":
        return None
    if not _at_content(tape):
        return size - member if tape.damaged is None else None
    place = tape.place()
    return place.member - member if place.inner == 0 else None


def _head(tape: RecordStream) -> _Head | None:
    """The header ahead, not dropped; None where it has no end or lacks what it must say."""
    if not tape.ahead.startswith(b"WARC/"):
        return _arc_head(bytes(tape.ahead[:_LOOK_AHEAD]))
    end = _HEAD_END.search(tape.ahead, 0, _HEAD_BYTES)
    while end is None and len(tape.ahead) < _HEAD_BYTES and tape.fill():
        end = _HEAD_END.search(tape.ahead, 0, _HEAD_BYTES)
    if end is None:
        return None
    lines = re.sub(r"\r?\n[ \t]+", " ", tape.ahead[: end.start()].decode("utf-8", "replace")).splitlines()[1:]
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
    """Seconds since 1970 of YYYYMMDDhhmmss (more digits are fractions); None where it is no date."""
    try:
        return int(datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None
