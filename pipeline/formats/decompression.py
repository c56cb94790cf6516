"""Bounded decompression: gzip, zstandard, LZ4, bzip2 and xz, many members a file, never more memory than a few MiB.

Whatever can be decoded is given before an error is: a truncated file yields its beginning, then raises `Damage`.
"""

from __future__ import annotations

import bz2
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol

import lz4.frame
import zstandard

from pipeline.formats.account import Account
from pipeline.formats.limits import Limits

__all__ = [
    "CODECS",
    "REASONS",
    "Damage",
    "Decoder",
    "ZlibDecoder",
    "decompress",
    "decompress_body",
    "detect_codec",
    "is_bomb",
]

_CHUNK: Final = 1 << 18
_OUTPUT: Final = 1 << 20
_RATIO_FREE: Final = 64 << 20
"""Output below this many bytes may have any ratio: short repetitive files compress far better than 200 to 1."""
_ZSTD_INPUT: Final = 1024  # a block of 4 bytes may decode to 128 KiB, so 1 KiB of input gives at most 32 MiB
_WINDOW: Final = 2**27
_MEMORY: Final = 2**28


def is_bomb(limits: Limits, compressed: int, decompressed: int) -> bool:
    """Return whether the output is so large for its input that reading must end."""
    return decompressed > limits.decompressed_bytes or (
        decompressed > _RATIO_FREE and decompressed > limits.ratio * compressed
    )


class Damage(Exception):
    """A stream cannot be decoded further: `reason` is `truncated`, `bomb`, `trailing_junk` or `<codec>_error`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Decoder(Protocol):
    """The interface that the standard library's incremental decompressors share."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return output of at most about `max_length` bytes; the rest comes at the next calls."""

    @property
    def eof(self) -> bool:
        """Return whether the stream has ended."""

    @property
    def needs_input(self) -> bool:
        """Return whether everything given was used."""

    @property
    def unused_data(self) -> bytes:
        """Return the bytes that follow the stream's end."""


class ZlibDecoder:
    """zlib's decompressor with that interface; `wbits` as zlib counts them (31: gzip with its checksum)."""

    def __init__(self, wbits: int) -> None:
        self._decoder = zlib.decompressobj(wbits)
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """See `Decoder`."""
        output = self._decoder.decompress(self._decoder.unconsumed_tail + data, max_length)
        self.needs_input = len(output) < max_length
        return output

    @property
    def eof(self) -> bool:
        """See `Decoder`."""
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        """See `Decoder`."""
        return self._decoder.unused_data


class _Zstandard:
    """zstandard's decompressor with that interface: it knows no output limit, so its input is given in drops."""

    def __init__(self) -> None:
        self._decoder: Any = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
        self._pending = b""
        self._at = 0

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """See `Decoder`."""
        if data:
            self._pending, self._at = self._pending[self._at :] + data, 0
        pieces, length = [], 0
        while length < max_length and not self.needs_input and not self.eof:
            drop = self._pending[self._at : self._at + _ZSTD_INPUT]
            self._at += len(drop)
            pieces.append(self._decoder.decompress(drop))
            length += len(pieces[-1])
        return b"".join(pieces)

    @property
    def needs_input(self) -> bool:
        """See `Decoder`."""
        return self._at >= len(self._pending)

    @property
    def eof(self) -> bool:
        """See `Decoder`."""
        return bool(self._decoder.eof)

    @property
    def unused_data(self) -> bytes:
        """See `Decoder`."""
        return bytes(self._decoder.unused_data) + self._pending[self._at :]


@dataclass(frozen=True, slots=True)
class _Codec:
    magics: tuple[bytes, ...]
    decoder: Callable[[], Decoder]


_SKIPPABLE = tuple(bytes([first, 0x2A, 0x4D, 0x18]) for first in range(0x50, 0x60))
CODECS: Final[dict[str, _Codec]] = {
    "gzip": _Codec((b"\x1f\x8b\x08",), lambda: ZlibDecoder(31)),
    "zstd": _Codec((b"\x28\xb5\x2f\xfd", *_SKIPPABLE), _Zstandard),
    "lz4": _Codec((b"\x04\x22\x4d\x18",), lz4.frame.LZ4FrameDecompressor),
    "bz2": _Codec((b"BZh",), bz2.BZ2Decompressor),
    "xz": _Codec((b"\xfd7zXZ\x00",), lambda: lzma.LZMADecompressor(memlimit=_MEMORY)),
}
REASONS: Final = ("bomb", "trailing_junk", "truncated", *(f"{name}_error" for name in CODECS))
"""Every reason of `Damage` that `decompress` gives."""
_ERRORS = (zlib.error, OSError, EOFError, ValueError, RuntimeError, lzma.LZMAError, zstandard.ZstdError, MemoryError)


def detect_codec(head: bytes) -> str | None:
    """Name of the compression that the first bytes of a file announce, or None."""
    for name, codec in CODECS.items():
        if head.startswith(codec.magics):
            return name
    return None


def decompress(file: BinaryIO, codec: str | None, limits: Limits, account: Account | None = None) -> Iterator[bytes]:
    """Yield pieces of the decompressed content, each a few MiB at most; `codec` None passes the file through.

    Args:
        file: the file, at its first byte.
        codec: name of the compression.
        limits: bounds on the output.
        account: where bytes are counted; content too.

    Raises:
        Damage: after everything that could be decoded.
    """
    account = Account() if account is None else account
    pieces = iter(lambda: file.read(_OUTPUT), b"") if codec is None else _members(file, codec, limits, account)
    try:
        for piece in pieces:
            account.decoded += len(piece) if codec is None else 0
            account.content += len(piece)
            yield piece
    except Damage as damage:
        account.pass_over(damage.reason, file.seek(0, os.SEEK_END) - account.decoded)
        raise


def _members(file: BinaryIO, codec: str, limits: Limits, account: Account) -> Iterator[bytes]:
    produced = 0
    rest = b""
    while rest := (rest + file.read(16)).lstrip(b"\0"):
        if not rest.startswith(CODECS[codec].magics):
            raise Damage("trailing_junk" if account.decoded else f"{codec}_error")
        decoder = CODECS[codec].decoder()
        data = rest + file.read(_CHUNK)
        while not decoder.eof:
            piece = _step(decoder, data, codec)
            account.decoded += len(data)
            produced += len(piece)
            if piece:
                yield piece
            if is_bomb(limits, account.decoded, produced):
                raise Damage("bomb")
            data = b""
            if decoder.needs_input and not decoder.eof and not (data := file.read(_CHUNK)):
                account.decoded = file.tell()
                raise Damage("truncated")
        rest = decoder.unused_data or b""  # LZ4 gives None
        account.decoded -= len(rest)
    account.decoded = file.tell()


def _step(decoder: Decoder, data: bytes, codec: str) -> bytes:
    try:
        return decoder.decompress(data, _OUTPUT)
    except _ERRORS as error:
        raise Damage(f"{codec}_error") from error


def decompress_body(data: bytes, decoder: Decoder, limits: Limits) -> tuple[bytes, bool]:
    """Decompress a body in memory, at most `record_bytes` long; bytes after its end are ignored.

    Returns:
        What decodes, and whether that is the whole body; one that ends early gives its beginning.

    Raises:
        Damage: it does not decode (`body_error`), ends before its first byte (`truncated`), or is a `bomb`.
    """
    pieces: list[bytes] = []
    produced = 0
    given = data
    while not decoder.eof:
        piece = _step(decoder, given, "body")
        given = b""
        pieces.append(piece)
        produced += len(piece)
        if produced > limits.record_bytes or is_bomb(limits, len(data), produced):
            raise Damage("bomb")
        if not piece and decoder.needs_input and not decoder.eof:
            if not produced:
                raise Damage("truncated")
            return b"".join(pieces), False
    return b"".join(pieces), True
