"""Read mailboxes: each message is a document, made of its decoded text parts."""

import re
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Final

from clozeline.pipeline.ingest.documents.document import RECORD_ID
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines
from clozeline.pipeline.ingest.formats.decompression import DAMAGE_REASONS, Damage, InputFile
from clozeline.pipeline.ingest.formats.mail_message import parse_message
from clozeline.pipeline.ingest.readers import Item, RawRecord, Reader, SkippedRecord

_DATE: Final = re.compile(rb"From .{0,500}\d\d:\d\d.{0,40}\d{4}\s*$")
_HEADER: Final = re.compile(rb"[!-9;-~]{1,80}:")
_QUOTED: Final = re.compile(rb"^>(>*From )", re.MULTILINE)


class MboxReader(Reader):
    """Reads messages with the standard library's `email`.

    The text of a message is its plain text, or its HTML if it has no other text.

    A message starts with a line `From `, before a header, and after a blank line or with a date. A
    file without such a line, as `.eml`, is one message. Attachments and headers are dropped;
    `extra` holds
    the subject, and the message id as `id`.
    """

    VERSION = 2
    suffixes = (".mbox", ".mbx", ".eml")
    start = rb"From [^\n]{0,500}\d\d:\d\d[^\n]{0,40}\d{4}\s*\n(>From [^\n]*\n)?[!-9;-~]{1,80}:"
    reasons = (
        *DAMAGE_REASONS,
        "bad_message",
        "charset",
        "line_bytes",
        "too_large",
    )

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        first = 0
        length = 0
        after_blank = True
        lines: list[bytes] | None = None  # of the message; None before the first one

        for (offset, line), (_, following) in pairwise(
            chain(ByteLines(path, start, end, self._limits), [(0, b"")])
        ):
            if isinstance(line, Damage):
                yield SkippedRecord.from_damage(line, offset)
                lines = None
                after_blank = True
                continue

            has_header = isinstance(following, bytes) and _HEADER.match(following) is not None
            is_start = (
                line.startswith(b"From ")
                and has_header
                and (after_blank or _DATE.match(line) is not None)
            )

            after_blank = not line.strip()

            if is_start or (lines is None and _HEADER.match(line) and offset == 0):
                if lines is not None:
                    yield self._make_item(lines, first, length)
                first = offset
                length = 0
                lines = [] if is_start else [line]
            elif lines is not None and length <= self._limits.record_bytes:
                lines.append(line)
            elif lines is None and not after_blank:
                yield SkippedRecord("note", "line_outside_messages")

            length += len(line) + 1

        if lines is not None:
            yield self._make_item(lines, first, length)

    def _make_item(self, lines: list[bytes], offset: int, length: int) -> Item:
        if length > self._limits.record_bytes:
            return SkippedRecord("malformed", "too_large", offset)
        message = parse_message(_QUOTED.sub(rb"\1", b"\n".join(lines)))
        if isinstance(message, str):
            return SkippedRecord("malformed", message, offset)
        text, is_markup, flags, subject, date, message_id = message
        extra = {"subject": subject, **({RECORD_ID: message_id} if message_id else {})}
        return RawRecord(offset, "mbox", length, text, is_markup, None, date, flags, extra=extra)
