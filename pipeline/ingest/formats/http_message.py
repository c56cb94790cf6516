"""A captured HTTP response: status, headers, and the body with its transfer and content encodings undone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import brotli

from clozeline.pipeline.ingest.formats.decompression import CODECS, Damage, Decoder, ZlibDecoder, decompress_body
from clozeline.pipeline.ingest.formats.limits import Limits

_STATUS: Final = re.compile(rb"\s*HTTP/\d(?:\.\d)?\s+(\d{3})(?:\s[^\n]*)?\n", re.IGNORECASE)
_CHARSET: Final = re.compile(r"""charset\s*=\s*["']?([^\s;"']+)""", re.IGNORECASE)
_HEADER_END: Final = re.compile(rb"\n\r*\n")
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r*\n")
_LINE_END: Final = re.compile(rb"\r*\n")
_HEADER_BYTES: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """Status code, header fields (lower case names, last one wins), and the body as captured."""

    status: int
    headers: dict[str, str]
    body: bytes

    def content(self, limits: Limits) -> tuple[bytes, bool]:
        """Join the chunks of the body and decompress it; a body whose declaration is false is given as it is.

        Returns:
            The body, and whether it is whole; of one that was cut, what decodes.

        Raises:
            Damage: `content_encoding` where it is compressed but does not decode, `bomb` where it grows too much.
        """
        body, whole = self.body, True
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            body = _joined(body)
        for name in reversed(self.headers.get("content-encoding", "").lower().replace(" ", "").split(",")):
            body, decoded = _decoded(body, name, limits)
            whole = whole and decoded
        return body, whole


def parse_response(message: bytes) -> HttpResponse | None:
    """Split a message into status line, headers and body; None where it does not begin with a status line."""
    status = _STATUS.match(message)
    if status is None:
        return None
    end = _HEADER_END.search(message, status.end() - 2, status.end() + _HEADER_BYTES)
    head, body = (message[status.end() : end.start()], message[end.end() :]) if end else (message[status.end() :], b"")
    headers: dict[str, str] = {}
    for line in head.decode("latin-1").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return HttpResponse(int(status[1]), headers, body)


def content_type(value: str | None) -> tuple[str, str | None]:
    """Return the media type in lower case (empty where absent) and the charset of a Content-Type header."""
    if not value:
        return "", None
    charset = _CHARSET.search(value)
    return value.split(";")[0].strip().lower(), charset[1] if charset else None


def _joined(body: bytes) -> bytes:
    """Join the chunks; give the body itself where it is not chunked, and the first chunks where it is cut."""
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
    """brotli's decompressor with the interface of the others."""

    unused_data = b""

    def __init__(self) -> None:
        self._decoder: Any = brotli.Decompressor()

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return output of at most about `max_length` bytes."""
        try:
            return bytes(self._decoder.process(data, output_buffer_limit=max_length))
        except brotli.error as error:
            raise ValueError(str(error)) from error

    @property
    def eof(self) -> bool:
        """Return whether the stream has ended."""
        return bool(self._decoder.is_finished())

    @property
    def needs_input(self) -> bool:
        """Return whether everything given was used."""
        return bool(self._decoder.can_accept_more_data())


# zlib's 47 takes gzip or zlib by the header; servers send raw deflate under the same name as zlib.
_DECODERS: Final[dict[str, tuple[Callable[[], Decoder], ...]]] = {
    "gzip": (lambda: ZlibDecoder(47),),
    "x-gzip": (lambda: ZlibDecoder(47),),
    "deflate": (lambda: ZlibDecoder(47), lambda: ZlibDecoder(-15)),
    "br": (_Brotli,),
    "zstd": (CODECS["zstd"].decoder,),
}


def _decoded(body: bytes, name: str, limits: Limits) -> tuple[bytes, bool]:
    for decoder in _DECODERS.get(name, ()):
        try:
            return decompress_body(body, decoder(), limits)
        except Damage as damage:
            if damage.reason == "bomb":
                raise
    # Some archives keep the header but store the decoded body.
    if name in _DECODERS and (b"\0" in body[:512] or b"<" not in body[:4096]):
        raise Damage("content_encoding")
    return body, True
