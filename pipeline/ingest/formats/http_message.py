"""Parse captured HTTP responses, decode their bodies, and tell HTML from what is only declared so."""

import re
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import brotli

from clozeline.pipeline.ingest.formats.decompression import CODECS, ERRORS, Damage, feed, is_bomb
from clozeline.pipeline.ingest.formats.limits import Limits

_STATUS: Final = re.compile(rb"\s*HTTP/\d(?:\.\d)?\s+(\d{3})(?:\s[^\n]*)?\n", re.IGNORECASE)
_CHARSET: Final = re.compile(r"""charset\s*=\s*["']?([^\s;"']+)""", re.IGNORECASE)
_HEADER_END: Final = re.compile(rb"\n\r*\n")
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r*\n")
_FIELD: Final = re.compile(r"^([^:\n]*):(.*)", re.MULTILINE)
_FOLD: Final = re.compile(r"\n[ \t]+")
_LINE_END: Final = re.compile(rb"\r*\n")
_HEADER_BYTES: Final = 1 << 17
_ENCODING_FIELDS: Final = ("transfer-encoding", "content-encoding")
_MOST_LAYERS: Final = 4
"""Encodings of one body, one in another; servers send one, rarely two."""
_STEP: Final = 1 << 10
"""Bytes of a body that are decoded at a time."""

_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_MAGICS: Final = (
    b"%PDF-", b"\x89PNG\r\n", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b\x08", b"\x7fELF", b"MZ\x90",
    b"OggS", b"ID3", b"RIFF", b"BM\x36", b"II*\0", b"MM\0*", b"\x00\x00\x01\x00", b"wOFF", b"wOF2",
    b"Rar!", b"7z\xbc\xaf",
)  # fmt: skip
_TAG: Final = re.compile(
    rb"<(?:!doctype\s+html|!--|html|head|body|title|meta|link|script|style|div|p|h[1-6]|table|a|br|span|ul|ol|font|b|i)"
    rb"[\s>/!-]",
    re.IGNORECASE,
)
_JSON: Final = re.compile(rb'\s*(?:\{\s*["}]|\[\s*[\[{"\]\d])')
_NAME: Final = re.compile(r"[\w.+/-]{1,60}")


class HttpResponse(NamedTuple):
    """Status code, header fields (lower-case names, the last one wins), and the body."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_complete: bool = True


def parse_response(message: bytes, limits: Limits) -> HttpResponse | None:
    """Return the response with its decoded body if its status is 200, or None if there is no status line.

    A body that is not encoded as declared stays unchanged; one that is compressed but does not decode is a Damage
    (`content_encoding`), as is a `bomb`.
    """
    status = _STATUS.match(message)
    if status is None:
        return None
    end = _HEADER_END.search(message, status.end() - 2, status.end() + _HEADER_BYTES)
    head, body = (message[status.end() : end.start()], message[end.end() :]) if end else (message[status.end() :], b"")
    response = HttpResponse(int(status[1]), parse_fields(head, "latin-1"), body)
    is_encoded = response.status == 200 and not response.headers.keys().isdisjoint(_ENCODING_FIELDS)
    return _decode_body(response, limits) if is_encoded else response


def parse_fields(head: bytes | bytearray, encoding: str) -> dict[str, str]:
    """Return the fields of a header by their names in lower case, the last of a name; lines may be folded."""
    lines = _FOLD.sub(" ", head.decode(encoding, "replace").replace("\r", ""))
    return {name.strip().lower(): value.strip() for name, value in _FIELD.findall(lines)}


@lru_cache(maxsize=64)  # a crawl repeats few of them
def content_type(value: str | None) -> tuple[str, str | None]:
    """Return the media type of a Content-Type header in lower case, "" if absent, and its charset."""
    if not value:
        return "", None
    charset = _CHARSET.search(value)
    return re.split("[;,]", value)[0].strip().lower(), charset[1] if charset else None


def explain_no_page(media: str, body: bytes) -> str:
    """Return why a body of a declared type is no HTML page, "" if it is: servers declare a wrong type or none."""
    if not body or body.isspace():
        return "empty_body"
    if media and media not in _HTML_TYPES:
        return f"mime_{sanitize(media)}"
    if not media and not _TAG.match(body.removeprefix(b"\xef\xbb\xbf")[:1024].lstrip()):
        return "mime_unknown"
    if body.startswith(_MAGICS) or (_JSON.match(body[:256]) and body.rstrip()[-1:] in b"]}"):
        return "mime_contradicted"
    return ""


def sanitize(name: str) -> str:
    """Return a name from the file in a form fit for a reason."""
    return name if _NAME.fullmatch(name) else "other"


def _decode_body(response: HttpResponse, limits: Limits) -> HttpResponse:
    """Join the chunks of the body, and decompress it."""
    body, is_complete = response.body, True
    if "chunked" in response.headers.get("transfer-encoding", "").lower():
        body = _join_chunks(body)
    names = response.headers.get("content-encoding", "").lower().replace(" ", "").split(",")
    layers = [name for name in names if name in _DECODERS]
    if len(layers) > _MOST_LAYERS:
        raise Damage("content_encoding")
    left = limits.record_bytes  # for the sum of all layers, those included that do not decode
    for name in reversed(layers):
        for make_decoder in _DECODERS[name]:
            content, ended, left = _decompress(body, make_decoder(), limits, left)
            if ended is not None:
                body, is_complete = content, is_complete and ended
                break
        else:  # some archives keep the header but store the decoded body
            if b"\0" in body[:512] or b"<" not in body[:4096]:
                raise Damage("content_encoding")
    return response._replace(body=body, is_complete=is_complete)


def _join_chunks(body: bytes) -> bytes:
    """Join the chunks; return a body that is not chunked unchanged, and the first chunks of a cut one."""
    pieces: list[bytes] = []
    at = 0
    while size := _CHUNK_SIZE.match(body, at):
        length = int(size[1], 16)
        if length == 0:
            break
        pieces.append(body[size.end() : size.end() + length])
        at = size.end() + length
        at = end.end() if (end := _LINE_END.match(body, at)) else at
    return b"".join(pieces) if pieces or _CHUNK_SIZE.match(body) else body


def _decompress(body: bytes, decoder: Any, limits: Limits, left: int) -> tuple[bytes, bool | None, int]:
    """Return the decompressed body, whether it is complete (None: it does not decode), and what is left of `left`."""
    pieces: list[bytes] = []
    produced = 0
    try:
        for at in range(0, len(body), _STEP):
            for piece in feed(decoder, body[at : at + _STEP]):
                pieces.append(piece)
                produced += len(piece)
                if produced > left or is_bomb(limits, len(body), produced):
                    raise Damage("bomb")
            if decoder.eof:  # ignores trailing bytes
                return b"".join(pieces), True, left - produced
    except ERRORS:
        return b"", None, left - produced
    return b"".join(pieces), False if produced else None, left - produced


class _Brotli:
    """brotli's decompressor with the interface of the standard library."""

    def __init__(self) -> None:
        self._decoder: Any = brotli.Decompressor()

    def decompress(self, data: bytes, max_length: int) -> bytes:
        try:
            return bytes(self._decoder.process(data, output_buffer_limit=max_length))
        except brotli.error as error:
            raise ValueError(str(error)) from error

    @property
    def eof(self) -> bool:
        return bool(self._decoder.is_finished())

    @property
    def needs_input(self) -> bool:
        return bool(self._decoder.can_accept_more_data())


# wbits 47 accepts gzip and zlib; servers send raw deflate under the same name as zlib
_DECODERS: Final[dict[str, tuple[Callable[[], Any], ...]]] = {
    "gzip": (lambda: zlib.decompressobj(47),),
    "x-gzip": (lambda: zlib.decompressobj(47),),
    "deflate": (lambda: zlib.decompressobj(47), lambda: zlib.decompressobj(-15)),
    "br": (_Brotli,),
    "zstd": (CODECS["zstd"].decoder,),
}
