"""Parse the headers of WARC and ARC records."""

import re
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple

from clozeline.pipeline.ingest.formats.http_message import content_type

WITH_TEXT: Final = ("conversion", "response")
"""Types of records whose content may be a document."""
HEAD_BYTES: Final = 1 << 16
"""Most bytes of a header."""
_HEAD_END: Final = re.compile(rb"\n\r*\n")
_FIELD: Final = re.compile(
    r"\n(?:(warc-(?:type|target-uri|date|truncated)|content-(?:length|type))[ \t]*:([^\n]*)|[ \t])",
    re.IGNORECASE | re.ASCII,
)
_TEXT_MODE: Final = re.compile(rb"\r\r\n")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_NO_DIGIT: Final = re.compile(r"\D")
_FOLD: Final = re.compile(r"\n[ \t]+")


class RecordHead(NamedTuple):
    """The header of a record: `size` is its own size, `length` that of the content, None if invalid.

    The rest is that of records with a text.
    """

    kind: str
    size: int
    length: int | None
    text_mode: bool = False  # its lines end in `\r\r\n`, so its content is longer than its length says
    url: str | None = None
    date: int | None = None
    media: str = ""
    charset: str | None = None
    truncated: bool = False


def has_head(ahead: bytes | bytearray) -> bool:
    """Return whether the header of a WARC record ends in these bytes."""
    return _HEAD_END.search(ahead, 0, HEAD_BYTES) is not None


def parse_head(ahead: bytes | bytearray) -> RecordHead | None:
    """Return the header of a WARC record; None if it has no end or lacks a required field."""
    end = _HEAD_END.search(ahead, 0, HEAD_BYTES)
    if end is None:
        return None
    raw = ahead[: end.start()]
    lines, text_mode = raw.replace(b"\r", b"").decode("utf-8", "replace"), _TEXT_MODE.search(raw) is not None
    fields = {name.lower(): value.strip() for name, value in _FIELD.findall(lines)}
    if "" in fields:  # a line is folded
        fields = {name.lower(): value.strip() for name, value in _FIELD.findall(_FOLD.sub(" ", lines))}
    if "warc-type" not in fields:
        return None
    kind, length = fields["warc-type"].lower(), _parse_number(fields.get("content-length", ""))
    if kind not in WITH_TEXT:
        return RecordHead(kind, end.end(), length, text_mode)
    url = fields.get("warc-target-uri", "").strip("<> ") or None
    date = _parse_date(fields.get("warc-date", ""))
    media, charset = content_type(fields.get("content-type"))
    return RecordHead(kind, end.end(), length, text_mode, url, date, media, charset, "warc-truncated" in fields)


def parse_arc_head(line: bytes) -> RecordHead | None:
    """Return the header of an ARC record, the first line."""
    line = line[: line.index(b"\n") + 1]
    fields = line.decode("utf-8", "replace").split()
    at = next(i for i in range(2, len(fields)) if fields[i].isdigit() and len(fields[i]) >= 12)
    url, date, media, length = " ".join(fields[: at - 1]), fields[at], fields[at + 1], fields[-1]
    kind = "filedesc" if url.startswith("filedesc:") else "response" if url.startswith("http") else "other"
    media = "" if media == "no-type" else media.lower()
    return RecordHead(kind, len(line), _parse_number(length), url=url, date=_parse_date(date), media=media)


def _parse_number(digits: str) -> int | None:
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None


@lru_cache(maxsize=1024)  # records that follow one another were captured in the same seconds
def _parse_date(date: str) -> int | None:
    """Return seconds since 1970 of YYYY-MM-DDThh:mm:ssZ or its digits; None if it is no date.

    Missing digits of the time are zeros.
    """
    if _DATE.fullmatch(date) is None:
        digits = _NO_DIGIT.sub("", date)[:14].ljust(14, "0")
        date = f"{digits[:8]}T{digits[8:]}+00:00"
    try:
        return int(datetime.fromisoformat(date).timestamp())
    except ValueError:
        return None
