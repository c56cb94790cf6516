"""Parse captured HTTP responses and decode their bodies (transfer and content encodings)."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import brotli

from clozeline.pipeline.ingest.formats.decompression import CODECS, Damage, Decoder, ZlibDecoder, decompress_body
from clozeline.pipeline.ingest.formats.limits import Limits

_STATUS: Final = re.compile(rb"\s*HTTP/\d(?:\.\d)?\s+(\d{3})(?:\s[^\n]*)?\n", re.IGNORECASE)
_CHARSET: Final = re.compile(r"""charset\s*=\s*["']?([^\s;"']+)""", re.IGNORECASE)
_HEADER_END: Final = re.compile(rb"\n\r*\n")
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r*\n")
_FIELD: Final = re.compile(r"^([^:\n]*):(.*)", re.MULTILINE)
_FOLD: Final = re.compile(r"\n[ \t]+")
_LINE_END: Final = re.compile(rb"\r*\n")
_HEADER_BYTES: Final = 1 << 17
_MOST_LAYERS: Final = 4
"""Encodings of one body, one in another; servers send one, rarely two."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """Status code, header fields (lower-case names, the last one wins), and the body as captured."""

    status: int
    headers: dict[str, str]
    body: bytes

    def content(self, limits: Limits) -> tuple[bytes, bool]:
        """Join the chunks of the body, decompress it, and return it with whether it is complete.

        A body that is not encoded as declared is returned unchanged; one that is compressed but does not decode is a
        Damage (`content_encoding`), as is a `bomb`.
        """
        body, complete = self.body, True
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            body = _join_chunks(body)
        names = self.headers.get("content-encoding", "").lower().replace(" ", "").split(",")
        layers = [name for name in names if name in _DECODERS]
        if len(layers) > _MOST_LAYERS:
            raise Damage("content_encoding")
        left = limits.record_bytes  # for the sum of all layers, those included that do not decode
        for name in reversed(layers):
            body, ended, decoded = _decode(body, name, limits, left)
            left -= decoded
            complete = complete and ended
        return body, complete


def parse_response(message: bytes) -> HttpResponse | None:
    """Split a message into status line, headers and body; None if it does not start with a status line."""
    status = _STATUS.match(message)
    if status is None:
        return None
    end = _HEADER_END.search(message, status.end() - 2, status.end() + _HEADER_BYTES)
    head, body = (message[status.end() : end.start()], message[end.end() :]) if end else (message[status.end() :], b"")
    return HttpResponse(int(status[1]), parse_fields(head, "latin-1"), body)


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


class _Brotli:
    """brotli's decompressor as a `Decoder`."""

    unused_data = b""

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
_DECODERS: Final[dict[str, tuple[Callable[[], Decoder], ...]]] = {
    "gzip": (lambda: ZlibDecoder(47),),
    "x-gzip": (lambda: ZlibDecoder(47),),
    "deflate": (lambda: ZlibDecoder(47), lambda: ZlibDecoder(-15)),
    "br": (_Brotli,),
    "zstd": (CODECS["zstd"].decoder,),
}


def _decode(body: bytes, name: str, limits: Limits, left: int) -> tuple[bytes, bool, int]:
    """Return the decoded body, whether it is complete, and how many bytes were decoded, at most `left`."""
    decoded = 0
    for decoder in _DECODERS[name]:
        try:
            content, complete = decompress_body(body, decoder(), limits, left - decoded)
        except Damage as damage:
            decoded += damage.content
            if damage.reason == "bomb":
                raise
        else:
            return content, complete, decoded + len(content)
    # some archives keep the header but store the decoded body
    if b"\0" in body[:512] or b"<" not in body[:4096]:
        raise Damage("content_encoding")
    return body, True, decoded
