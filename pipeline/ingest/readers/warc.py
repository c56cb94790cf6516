"""Read WARC, WET and ARC files, plain or compressed: captured pages, and the texts of WET files."""

import re
from collections.abc import Generator, Iterator, Sequence
from typing import ClassVar, Final, Literal, NamedTuple

from clozeline.configuration.config import config_class
from clozeline.pipeline.ingest.documents.document import FLAG_TRUNCATED_SOURCE
from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.charset import decode
from clozeline.pipeline.ingest.formats.content_sniffing import HTML_TYPES, contradicts_html, looks_like_html
from clozeline.pipeline.ingest.formats.decompression import REASONS, Damage, detect_codec
from clozeline.pipeline.ingest.formats.http_message import content_type, parse_response
from clozeline.pipeline.ingest.formats.input_file import InputFile
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.formats.record_stream import Position, RecordStream, find_record, open_record_stream
from clozeline.pipeline.ingest.formats.warc_head import (
    HEAD_BYTES,
    WITH_TEXT,
    RecordHead,
    has_head,
    parse_arc_head,
    parse_head,
)
from clozeline.pipeline.ingest.readers import Counted, Item, RawRecord

# text mode on Windows turns `\r\n` into `\r\r\n`
_WARC: Final = rb"WARC/[01]\.\d{1,2}[ \t]*\r*\n"
# URL, IP address, date, type, five more fields in version 2, length; the IP address ends a URL that contains blanks
_ARC: Final = (
    rb"[A-Za-z][A-Za-z0-9+.-]{1,20}:[^\r\n]{0,4000}? "
    rb"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]{1,40}|-) "
    rb"\d{12,20} \S{1,200}(?: \S{1,200}){0,5}? \S{1,19}\r*\n"
)
_WARC_START: Final = re.compile(_WARC)
_START: Final = re.compile(rb"(?:%s|%s)" % (_WARC, _ARC))
_NEXT: Final = re.compile(rb"(?<=\n)(?:%s|%s)" % (_WARC, _ARC))
_SEPARATOR: Final = b"\r\n\r\n"
_RECORD_END: Final = re.compile(rb"\r+\n\r+\n")
_BLANK_BYTES: Final = 64
_LOOK_AHEAD: Final = 1 << 13  # longer than any first line of a record
_NAME: Final = re.compile(r"[\w.+/-]{1,60}")


class _Unused(NamedTuple):
    """The reason that a record gives no document."""

    group: Literal["ignored", "malformed"]
    reason: str


class Warc:
    """Reads responses with status 200 and an HTML body, and conversion records (WET texts).

    After damage, reading continues at the next gzip member or line that starts like a record. Memory is never allocated
    by the length in a header.
    """

    VERSION: ClassVar[int] = 4
    suffixes: ClassVar[tuple[str, ...]] = (".warc", ".wet", ".arc")
    reasons: ClassVar[tuple[str, ...]] = (
        *REASONS, "bad_header", "bad_length", "charset", "content_encoding", "http", "not_gzip", "too_large",
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
        member = find_record(path, position, self._limits, _begins_record)
        if member is not None:
            return member
        # one byte earlier, because a record starts after a line end
        stream = open_record_stream(path, position - 1, self._limits, _begins_record, Account())
        dropped, is_record = _seek_record(stream)
        return position - 1 + dropped if is_record else size

    def read(self, path: InputFile, start: int, end: int, account: Account) -> Iterator[Item]:
        """Yield the records that start (in gzip files: whose member starts) in [start, end)."""
        size = path.stat().st_size
        start, end = self.first(path, start), self.first(path, end)
        if start < end:
            stream = open_record_stream(path, start, self._limits, _begins_record, account)
            stop = yield from self._read_records(stream, end, size)
            stream.close(stop, end)

    def _read_records(self, stream: RecordStream, end: int, size: int) -> Generator[Item, None, int]:
        """Yield the items up to a record that starts at `end` or later; return the offset where reading ended."""
        shared = False
        while True:
            yield from self._read_lone_records(stream, end, size)
            if not _skip_line_ends(stream):
                damaged = stream.damaged
                if damaged is None:
                    return size
                if damaged.member >= end:
                    if stream.abandoned is not None:
                        yield _count_damage(stream, damaged)
                    return damaged.member
                resumed = stream.resync(end)
                yield _count_damage(stream, damaged)
                if not resumed:
                    return end
                continue
            position = stream.position()
            if stream.is_beyond(position, end):
                return stream.locate(position)
            if position.inner and stream.kind == "warc-gz" and not shared:
                shared = True
                yield Counted("note", "records_share_gzip_member")
            yield from self._read_record(stream, position, size)

    def _read_record(self, stream: RecordStream, position: Position, size: int) -> Sequence[Item]:
        stream.ensure(_LOOK_AHEAD)
        if _START.match(stream.ahead) is None:
            return [Counted("note", "resync", _seek_record(stream)[0])]
        stream.account.records += 1
        head, locator = _read_head(stream), stream.locate(position)
        if head is None:
            if _is_cut(stream):
                stream.abandon(locator)
                return []
            return [Counted("malformed", "bad_header", _seek_record(stream)[0], locator)]
        extra = self._check_length(stream, head, locator)
        if extra is None or isinstance(extra, Counted):
            return [] if extra is None else [extra]
        length = head.size + (head.length or 0)
        payload = b""
        if head.kind in WITH_TEXT:
            with memoryview(stream.ahead) as ahead:
                payload = bytes(ahead[head.size : length + (extra if head.text_mode else 0)])
        stream.drop(length + extra)
        notes: list[Item] = []
        if extra:
            payload = payload.replace(b"\r\r\n", b"\r\n") if head.text_mode else payload
            head = head._replace(truncated=head.truncated or not head.text_mode)
            notes.append(Counted("note", "short_length", extra))
        stored = _measure_member(stream, position.member, size) if position.inner == 0 else None
        is_start = position.inner == 0 or stream.kind == "warc"
        kind = stream.kind if is_start else f"{stream.kind}:{position.inner}"
        return [*notes, self._make_item(head, payload, locator, kind, stored or length)]

    def _read_lone_records(self, stream: RecordStream, end: int, size: int) -> Iterator[Item]:
        """Yield records as long as each fills a small gzip member, as nearly all of a crawl do.

        Such a member is intact and the length of its record is right, so nothing has to be searched for.
        """
        content = stream.peek_member()
        while _WARC_START.match(content) and (member := stream.next_member) < end:
            head = parse_head(content)
            if head is None or head.length is None or head.length > self._limits.record_bytes:
                return
            length = head.size + head.length
            if content[length:] != _SEPARATOR:
                return
            payload = content[head.size : length] if head.kind in WITH_TEXT else b""
            stream.account.records += 1
            stream.account.separators += len(_SEPARATOR)
            stream.drop(len(content))
            content = stream.peek_member()
            followed = content.startswith(b"WARC/")
            stored = stream.next_member - member if followed else _measure_member(stream, member, size)
            yield self._make_item(head, payload, member, stream.kind, stored or length)

    def _check_length(self, stream: RecordStream, head: RecordHead, locator: int) -> Counted | int | None:
        """Return how many bytes after the next record belong to it in spite of its length, usually 0.

        If the record is unusable: the reason, with the stream at the next record; None if it is cut by damage, which is
        counted with the damage.
        """
        if head.length is None:
            return Counted("malformed", "bad_length", _seek_record(stream)[0], locator)
        if head.length > self._limits.record_bytes:
            dropped, is_record = _seek_record(stream)
            if stream.damaged is not None and not is_record:
                stream.abandon(locator, dropped)
                return None
            reason = "too_large" if is_record and dropped >= head.length else "bad_length"
            return Counted("malformed", reason, dropped, locator)
        length = head.size + head.length
        stream.ensure(length)
        if stream.ends_member(length + len(_SEPARATOR)) and stream.ahead.endswith(_SEPARATOR):
            return 0  # and the next member is not ahead, so that `_read_lone_records` can read it
        stream.ensure(length + _LOOK_AHEAD)
        # the only record of a damaged member cannot be trusted
        alone = stream.is_at_damage() and _NEXT.search(stream.ahead, length - 1) is None
        if alone or (len(stream.ahead) < length and _is_cut(stream)):
            stream.abandon(locator)
            return None
        if len(stream.ahead) >= length:
            if _can_end(stream, length):
                return 0
            # as in warcio, accept a length that is a little too small if the record ends with the line
            end = stream.ahead.find(b"\n", length, length + _LOOK_AHEAD) + 1
            if end and _NEXT.search(stream.ahead, head.size, length) is None and _can_end(stream, end):
                return end - length
        if head.text_mode and (end := _find_next_start(stream, length, self._limits.record_bytes)):
            return end - length
        cut = len(stream.ahead) < length and stream.kind == "warc" and _NEXT.search(stream.ahead, head.size) is None
        return Counted("malformed", "truncated" if cut else "bad_length", _seek_record(stream, head.size)[0], locator)

    def _make_item(self, head: RecordHead, payload: bytes, locator: int, kind: str, stored: int) -> Item:
        """Return the record; `stored` is its size in the file."""
        is_page, length = head.kind == "response", head.size + (head.length or 0)
        try:
            found = self._decode_page(head, payload) if is_page else _decode_text(head, payload)
        except Damage as damage:
            found = _Unused("malformed", damage.reason)
        if isinstance(found, _Unused):
            return Counted(found.group, found.reason, length, locator)
        text, flags = found
        flags |= FLAG_TRUNCATED_SOURCE if head.truncated else 0
        return RawRecord(locator, kind, stored, text, is_page, head.url, head.date, flags, span=length)

    def _decode_page(self, head: RecordHead, payload: bytes) -> tuple[str, int] | _Unused:
        """Return HTML and flags of a captured response."""
        response = parse_response(payload)
        if response is None and head.media.startswith("application/http"):
            return _Unused("malformed", "http")
        media, charset, body, complete = head.media, head.charset, payload, True
        if response is not None:
            if response.status != 200:
                return _Unused("ignored", f"status_{response.status}")
            media, charset = content_type(response.headers.get("content-type"))
            body, complete = response.content(self._limits)
        if not body or body.isspace():
            return _Unused("ignored", "empty_body")
        if media not in HTML_TYPES and not (media == "" and looks_like_html(body)):
            return _Unused("ignored", f"mime_{_sanitize(media) if media else 'unknown'}")
        if contradicts_html(body):
            return _Unused("ignored", "mime_contradicted")
        decoded = decode(body, charset, meta=True)
        if decoded is None:
            return _Unused("malformed", "charset")
        return decoded[0], decoded[1] | (0 if complete else FLAG_TRUNCATED_SOURCE)


def _decode_text(head: RecordHead, payload: bytes) -> tuple[str, int] | _Unused:
    """Return text and flags of a record that is no page."""
    if head.kind not in WITH_TEXT:
        return _Unused("ignored", f"type_{_sanitize(head.kind)}")
    return decode(payload, head.charset) or _Unused("malformed", "charset")


def _count_damage(stream: RecordStream, damaged: Damage) -> Counted:
    """Return what damage costs: the record that it cuts, or only garbage between the records of a gzip file."""
    content, stream.abandoned = stream.abandoned, None
    if content is None and damaged.reason == "not_gzip" and damaged.member > 0:
        return Counted("note", "resync")
    locator = stream.abandoned_at
    if content is None:
        stream.account.records += 1
        locator = damaged.member if stream.kind == "warc-gz" else stream.locate(stream.position())
    return Counted("malformed", damaged.reason, content or 0, locator)


def _is_cut(stream: RecordStream) -> bool:
    """Return whether damage cuts the next record: no other record starts before the damage."""
    return stream.damaged is not None and _NEXT.search(stream.ahead, 1) is None


def _sanitize(name: str) -> str:
    """Return a name from the file in a form fit for a reason."""
    return name if _NAME.fullmatch(name) else "other"


def _begins_record(content: bytes) -> bool:
    return content.startswith((b"WARC/", b"filedesc://")) or _START.match(content) is not None


def _skip_line_ends(stream: RecordStream) -> bool:
    """Skip line ends between records; False at the end of the stream."""
    while not stream.peek_member().startswith(b"WARC/"):
        if not stream.ensure(1):
            return False
        if stream.ahead[0] not in b"\r\n":
            break
        start = stream.ahead[:_BLANK_BYTES]  # the next record may be large: copy only what is likely to be blank
        blank = len(start) - len(start.lstrip(b"\r\n"))
        stream.drop(blank)
        stream.account.separators += blank
    return True


def _seek_record(stream: RecordStream, skip: int = 1) -> tuple[int, bool]:
    """Drop at least `skip` bytes, up to the next first line of a record; return the bytes, and whether there is one."""
    dropped = 0
    while True:
        match = _NEXT.search(stream.ahead, skip)
        if match is not None and (match.end() < len(stream.ahead) or not stream.fill()):
            stream.drop(match.start())
            return dropped + match.start(), True
        if match is None:
            # keep the last bytes, which may start a first line
            surplus = max(0, len(stream.ahead) - _LOOK_AHEAD)
            stream.drop(surplus)
            dropped, skip = dropped + surplus, max(0, skip - surplus)
            if not stream.fill():
                dropped += len(stream.ahead)
                stream.drop(len(stream.ahead))
                return dropped, False


def _can_end(stream: RecordStream, at: int) -> bool:
    """Return whether a record can end there: before line ends, the end of file or member, or the next record."""
    if stream.ahead.startswith(_SEPARATOR, at):
        return True
    rest = bytes(stream.ahead[at : at + _LOOK_AHEAD])
    follows = rest.lstrip(b"\r\n")
    blank = len(rest) - len(follows)
    # the first line of the next record may be cut
    cut = blank > 0 and b"\n" not in follows and len(rest) < _LOOK_AHEAD
    return (
        not follows
        or cut
        or _RECORD_END.match(rest) is not None
        or _START.match(follows) is not None
        or stream.is_boundary(at)
        or stream.is_boundary(at + blank)
    )


def _find_next_start(stream: RecordStream, start: int, most: int) -> int:
    """Return the bytes up to the next record from `start` on, or the end of the file; 0 beyond `most` bytes."""
    while (match := _NEXT.search(stream.ahead, start)) is None:
        if len(stream.ahead) > most:
            return 0
        start = max(start, len(stream.ahead) - _LOOK_AHEAD)
        if not stream.fill():
            return 0 if stream.damaged else len(stream.ahead)
    return match.start()


def _measure_member(stream: RecordStream, member: int, size: int) -> int | None:
    """Return the stored bytes of a gzip member if it holds only the record just passed."""
    if stream.kind != "warc-gz":
        return None
    if not _skip_line_ends(stream):
        return size - member if stream.damaged is None else None
    position = stream.position()
    return position.member - member if position.inner == 0 else None


def _read_head(stream: RecordStream) -> RecordHead | None:
    """Return the next header without dropping it; None if it has no end or lacks a required field."""
    if not stream.ahead.startswith(b"WARC/"):
        return parse_arc_head(bytes(stream.ahead[:_LOOK_AHEAD]))
    while not has_head(stream.ahead) and len(stream.ahead) < HEAD_BYTES and stream.fill():
        pass
    return parse_head(stream.ahead)
