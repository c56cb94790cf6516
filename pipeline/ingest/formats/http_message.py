"""Parse captured HTTP responses and decode their bodies.

Servers declare wrong types, so the body decides whether it is HTML.
"""

import re
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from clozeline.pipeline.ingest.formats.archives import MemberFile
from clozeline.pipeline.ingest.formats.decompression import CODECS, Damage, decompress_members
from clozeline.pipeline.ingest.formats.limits import LARGEST_WINDOW, InputLimits

_STATUS: Final = re.compile(
    rb"\s*(?:HTTP(?:/\d(?:\.\d)?)?[ \t]+|:status:[ \t]*)(\d{3})(?:\s[^\n]*)?\n", re.IGNORECASE
)
"""The first line of a response, or of a header block of HTTP/2."""
_CHARSET: Final = re.compile(r"""charset\s*=\s*["']?([^\s;"']+)""", re.IGNORECASE)
_HEADER_END: Final = re.compile(rb"\n\r*\n")
_CHUNK_SIZE: Final = re.compile(rb"0{0,16}([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r*\n")
_FIELD: Final = re.compile(r"^([^:\n]*):(.*)", re.MULTILINE)
_FOLD: Final = re.compile(r"\n[ \t]+")
_LINE_END: Final = re.compile(rb"\r*\n")
_HEADER_BYTES: Final = 1 << 17
_LIST_FIELDS: Final = frozenset({"transfer-encoding", "content-encoding"})
"""Fields whose several lines form one list (RFC 9110, 5.3)."""
_PAGE_STATUSES: Final = frozenset({200, 203})
"""Status codes whose body is the page itself; 206 is a part of it (RFC 9110, 15.3)."""
_PARTIAL_STATUS: Final = 206
_RANGE: Final = re.compile(r"bytes\s+0-(\d{1,18})/(\d{1,18}|\*)", re.IGNORECASE)
_LENGTH: Final = re.compile(r"\d{1,18}")
_MOST_LAYERS: Final = 4
"""Maximum nested encodings of a body; servers send one, rarely two."""
_MOST_STREAMS: Final = 1 << 14
"""Maximum consecutive members or frames of a body."""

_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_BINARY_MAGICS: Final = (
    b"%PDF-",
    b"\x89PNG\r\n",
    b"GIF8",
    b"\xff\xd8\xff",
    b"PK\x03\x04",
    b"\x1f\x8b\x08",
    b"\x7fELF",
    b"MZ\x90",
    b"OggS",
    b"ID3",
    b"RIFF",
    b"BM\x36",
    b"II*\0",
    b"MM\0*",
    b"\x00\x00\x01\x00",
    b"wOFF",
    b"wOF2",
    b"Rar!",
    b"7z\xbc\xaf",
)
_TAG: Final = re.compile(
    rb"<(?:!doctype\s+html|!--|html|head|body|title|meta|link|script|style|div|p|h[1-6]|table|a|br|"
    rb"span|ul|ol|font|b|i)"
    rb"[\s>/!-]",
    re.IGNORECASE,
)
_JSON: Final = re.compile(rb'\s*(?:\{\s*["}]|\[\s*[\[{"\]\d])')
_REASON_NAME: Final = re.compile(r"[\w.+/-]{1,60}")


class HttpResponse(NamedTuple):
    """Status code, header fields (lower-case names; the last one wins), and body."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_complete: bool = True
    """false if the body is known to be a part of the page"""
    is_page: bool = False
    """true if the status says that the body is the requested page, or its start"""


def parse_response(message: bytes, limits: InputLimits) -> HttpResponse | None:
    """Return the response, or None if the message has no status line.

    The body is decoded if the status says that it is a page.

    Interim responses, such as `100 Continue`, are skipped. A body that is not encoded as declared
    stays unchanged.

    Raises:
        Damage: the body is compressed but does not decode (`content_encoding`), or is a `bomb`.
    """
    position = 0

    while True:
        status = _STATUS.match(message, position)
        if status is None:
            return None
        code = int(status[1])
        end = _HEADER_END.search(message, status.end() - 2, status.end() + _HEADER_BYTES)
        if end is None or not 100 <= code < 200 or _STATUS.match(message, end.end()) is None:
            break
        position = end.end()

    head = message[status.end() : end.start() if end else None]
    fields = parse_fields(head, "latin-1")
    response = HttpResponse(code, fields, message[end.end() :] if end else b"")
    covered = _RANGE.fullmatch(fields.get("content-range", "")) if code == _PARTIAL_STATUS else None
    if code not in _PAGE_STATUSES and covered is None:
        return response

    is_entire = covered is None or int(covered[1]) + 1 == int(covered[2].replace("*", "0"))
    response = _decode_body(response, limits)
    return response._replace(is_page=True, is_complete=response.is_complete and is_entire)


def parse_fields(head: bytes | bytearray, encoding: str) -> dict[str, str]:
    """Return the fields of a header by their lower-case names; lines may be folded.

    The last field of a name counts, except that lists of encodings are joined.
    """
    lines = _FOLD.sub(" ", head.decode(encoding, "replace").replace("\r", ""))
    fields: dict[str, str] = {}
    for written, value in _FIELD.findall(lines):
        name = written.strip().lower()
        is_further = name in _LIST_FIELDS and name in fields
        fields[name] = f"{fields[name]}, {value.strip()}" if is_further else value.strip()
    return fields


@lru_cache(maxsize=64)  # a crawl repeats few of them
def parse_content_type(value: str | None) -> tuple[str, str | None]:
    """Return the lower-case media type of a Content-Type header ("" if absent) and its charset."""
    if not value:
        return "", None
    charset = _CHARSET.search(value)
    return re.split("[;,]", value)[0].strip().lower(), charset[1] if charset else None


def explain_not_html(media: str, body: bytes) -> str:
    """Return why a body of this declared type is not an HTML page; "" if it is.

    Servers declare a wrong type, or none.
    """
    if not body or body.isspace():
        return "empty_body"
    if media and media not in _HTML_TYPES:
        return f"mime_{reason_name(media)}"
    if not media and not _TAG.match(body.removeprefix(b"\xef\xbb\xbf")[:1024].lstrip()):
        return "mime_unknown"
    if body.startswith(_BINARY_MAGICS) or (_JSON.match(body[:256]) and body.rstrip()[-1:] in b"]}"):
        return "mime_contradicted"
    return ""


def reason_name(name: str) -> str:
    """Return a name from the file if it can be part of a reason, else `other`."""
    return name if _REASON_NAME.fullmatch(name) else "other"


def _decode_body(response: HttpResponse, limits: InputLimits) -> HttpResponse:
    """Join the chunks of the body, decompress it, and compare its size with the header."""
    body = response.body
    is_complete = True
    transfer = _split_codings(response.headers.get("transfer-encoding", ""))
    if "chunked" in transfer:
        body, is_complete = _join_chunks(body)

    layers = [*_split_codings(response.headers.get("content-encoding", "")), *transfer]
    layers = [name for name in layers if name in _CODINGS]
    if len(layers) > _MOST_LAYERS:
        raise Damage("content_encoding")

    is_as_sent = "chunked" not in transfer
    left = limits.record_bytes  # bytes that all layers together may still produce

    for name in reversed(layers if body else ()):
        # a body fits into memory, so that its windows do
        layer_limits = replace(limits, decompressed_bytes=max(1, left), window_bytes=LARGEST_WINDOW)
        for codec in _CODINGS[name]:
            content, ended = _decompress(body, codec, layer_limits)
            if ended is not None:
                left -= len(content)
                body = content
                is_complete = is_complete and ended
                break
        else:  # some archives store the decoded body under the original header
            if b"\0" in body[:512] or b"<" not in body[:4096]:
                raise Damage("content_encoding")
            is_as_sent = False

    length = _LENGTH.fullmatch(response.headers.get("content-length", "")) if is_as_sent else None
    is_complete = is_complete and (length is None or len(response.body) >= int(length[0]))
    return response._replace(body=body, is_complete=is_complete)


def _split_codings(value: str) -> list[str]:
    """Return the encodings in a field, in the order in which they were applied."""
    return [part.partition(";")[0].strip(" \t\"'") for part in value.lower().split(",")]


def _join_chunks(body: bytes) -> tuple[bytes, bool]:
    """Return the joined chunks, and whether the last chunk was present.

    A body that is not chunked stays unchanged.
    """
    pieces: list[bytes] = []
    at = 0
    while size := _CHUNK_SIZE.match(body, at):
        length = int(size[1], 16)
        if length == 0:
            return b"".join(pieces), True
        end = size.end() + length
        following = _LINE_END.match(body, end)
        if following is None and end < len(body) and not pieces:
            return body, True
        pieces.append(body[size.end() : end])
        at = end if following is None else following.end()

    return (b"".join(pieces), False) if pieces else (body, True)


def _decompress(body: bytes, codec: str, limits: InputLimits) -> tuple[bytes, bool | None]:
    """Return the decompressed body, and whether it is complete; None if it does not decode.

    A body may hold several consecutive streams. A further stream without first bytes that identify
    it counts if all of it decodes. Other bytes behind a stream are ignored.
    """
    file = MemberFile("", f"{codec} body", body)
    streams: dict[int, bytearray] = {}
    for start, piece in decompress_members(
        file, limits, codec=codec, resume=False, most_members=_MOST_STREAMS
    ):
        if isinstance(piece, bytes):
            streams.setdefault(start, bytearray()).extend(piece)
            continue

        is_first = streams.keys() <= {start}
        if piece.reason == "bomb":
            raise piece
        if piece.reason == "trailing_junk":
            break
        if is_first and (piece.reason == "damaged" or not streams):
            return b"", None
        if is_first or CODECS[codec].magics:
            return b"".join(streams.values()), False
        streams.pop(start, None)

    return b"".join(streams.values()), True


_CODINGS: Final = {
    "gzip": ("gzip", "zlib"),
    "x-gzip": ("gzip", "zlib"),
    "deflate": ("gzip", "zlib", "deflate"),  # servers send raw deflate under the name of zlib
    "br": ("br",),
    "zstd": ("zstd",),
}
"""Codecs that may decode a body, by the name of its encoding."""
