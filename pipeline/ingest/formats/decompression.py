"""Decompress gzip, zstandard, LZ4, bzip2 and xz files with many members in a few MiB of memory.

Everything that decodes is yielded before an error is reported; after damage, decoding continues at the next member.
"""

import bz2
import lzma
import os
import re
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, BinaryIO, Final, NamedTuple, Protocol, TypeAlias

import lz4.frame
import zstandard
from isal import igzip_lib

from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.input_file import FileBytes, InputFile
from clozeline.pipeline.ingest.formats.limits import Limits

SMALL_MEMBER: Final = 1 << 12
"""Bytes of the first read of a member; each further read doubles the total, up to `_CHUNK`."""
_CHUNK: Final = 1 << 18
_OUTPUT: Final = 1 << 20
_FIRST_OUTPUT: Final = 1 << 16  # of a member, because the memory of a MiB costs more than to decode a small one
_RATIO_FREE: Final = 64 << 20  # smaller outputs may have any ratio: short repetitive files exceed 200 to 1
_ZSTD_INPUT: Final = 1024  # a block of 4 bytes may decode to 128 KiB, so 1 KiB of input gives at most 32 MiB
_WINDOW: Final = 2**27
_MEMORY: Final = 2**28
_PROBE: Final = 1 << 12
_BLOCK: Final = 1 << 20
_LONGEST_MAGIC: Final = 16


def is_bomb(limits: Limits, compressed: int, decompressed: int) -> bool:
    """Return whether the output is suspiciously large for its input."""
    return decompressed > limits.decompressed_bytes or (
        decompressed > _RATIO_FREE and decompressed > limits.ratio * compressed
    )


class Damage(Exception):
    """A stream cannot be decoded further: `truncated`, `bomb`, `trailing_junk` or `<codec>_error`.

    `member` is the file offset of the member that does not decode, `content` the bytes of content before it.
    """

    def __init__(self, reason: str, member: int = 0, content: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.member = member
        self.content = content


Seekable: TypeAlias = BinaryIO | FileBytes


class Decoder(Protocol):
    """The interface of incremental decompressors, as in the standard library."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return output of at most about `max_length` bytes; the next calls return the rest."""

    @property
    def eof(self) -> bool:
        """True once the stream has ended."""

    @property
    def needs_input(self) -> bool:
        """True if all input was used."""

    @property
    def unused_data(self) -> bytes:
        """The bytes after the end of the stream."""


class FirstPiece(NamedTuple):
    """The content of the first bytes of a member, at most 64 KiB, and the decoder that continues after them."""

    data: bytes
    content: bytes
    decoder: Decoder


class ZlibDecoder:
    """zlib's decompressor as a `Decoder`; `wbits` as in zlib (31: gzip with its checksum)."""

    def __init__(self, wbits: int) -> None:
        self._decoder = zlib.decompressobj(wbits)
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        output = self._decoder.decompress(self._decoder.unconsumed_tail + data, max_length)
        self.needs_input = len(output) < max_length
        return output

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data


class _Zstandard:
    """zstandard's decompressor as a `Decoder`; it has no output limit, so the input is fed in small pieces."""

    def __init__(self) -> None:
        self._decoder: Any = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
        self._pending = b""
        self._at = 0

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if data:
            self._pending, self._at = self._pending[self._at :] + data, 0
        pieces, length = [], 0
        while length < max_length and not self.needs_input and not self.eof:
            fed = self._pending[self._at : self._at + _ZSTD_INPUT]
            self._at += len(fed)
            pieces.append(self._decoder.decompress(fed))
            length += len(pieces[-1])
        return b"".join(pieces)

    @property
    def needs_input(self) -> bool:
        return self._at >= len(self._pending)

    @property
    def eof(self) -> bool:
        return bool(self._decoder.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._decoder.unused_data) + self._pending[self._at :]


@dataclass(frozen=True, slots=True)
class _Codec:
    magics: tuple[bytes, ...]  # first bytes of a file
    decoder: Callable[[], Decoder]
    member: re.Pattern[bytes]  # first bytes of a member with content, searched for after damage
    exact: Callable[[], Decoder] | None = None  # decides what a damaged member holds; None: `decoder` does


_SKIPPABLE = tuple(bytes([first, 0x2A, 0x4D, 0x18]) for first in range(0x50, 0x60))
CODECS: Final[dict[str, _Codec]] = {
    "gzip": _Codec(
        (b"\x1f\x8b\x08",),
        lambda: igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP),  # twice as fast as zlib
        re.compile(rb"\x1f\x8b\x08(?=[\x00-\x1f])"),
        lambda: ZlibDecoder(31),
    ),
    "zstd": _Codec((b"\x28\xb5\x2f\xfd", *_SKIPPABLE), _Zstandard, re.compile(rb"\x28\xb5\x2f\xfd")),
    "lz4": _Codec((b"\x04\x22\x4d\x18",), lz4.frame.LZ4FrameDecompressor, re.compile(rb"\x04\x22\x4d\x18")),
    "bz2": _Codec((b"BZh",), bz2.BZ2Decompressor, re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")),
    "xz": _Codec((b"\xfd7zXZ\x00",), lambda: lzma.LZMADecompressor(memlimit=_MEMORY), re.compile(rb"\xfd7zXZ\x00\x00")),
}
REASONS: Final = ("bomb", "trailing_junk", "truncated", *(f"{name}_error" for name in CODECS))
"""Every reason of `Damage` in `decompress`."""
_ERRORS: Final[tuple[Any, ...]] = (
    zlib.error, igzip_lib.error, OSError, EOFError, ValueError, RuntimeError, lzma.LZMAError, zstandard.ZstdError,
    MemoryError,
)  # fmt: skip


def detect_codec(head: bytes) -> str | None:
    """Return the compression of a file with these first bytes, or None."""
    return next((name for name, codec in CODECS.items() if head.startswith(codec.magics)), None)


def decompress(
    file: BinaryIO, codec: str | None, limits: Limits, account: Account | None = None, *, resume: bool = True
) -> Iterator[bytes | Damage]:
    """Yield the decompressed content in pieces of at most a few MiB; `codec` None passes the file through.

    Everything that decodes comes before the damage, and after it, with `resume`, the content from the next member on
    (never after a `bomb`). `account` counts the bytes of the file and of the content.
    """
    account = Account() if account is None else account
    if codec is None:
        while piece := file.read(_OUTPUT):
            account.decoded += len(piece)
            account.content += len(piece)
            yield piece
        return
    size, at = file.seek(0, os.SEEK_END), 0
    while (start := _skip_zeros(file, at)) < size:
        account.decoded += start - at
        before = account.decoded, account.content
        try:
            yield from decode_member(file, codec, start, limits, account)
            at = start + account.decoded - before[0]
        except Damage as damage:
            member = find_member(file, codec, start + 1) if resume and damage.reason != "bomb" else None
            stop = start + account.decoded - before[0]
            if member is not None and member < stop:  # the bytes decoded as this member contain the next one
                account.decoded, stop = before[0], start
            cut = damage.reason == "truncated" and member is not None
            at, reason = member or size, f"{codec}_error" if cut else damage.reason
            account.pass_over(reason, at - stop)
            yield Damage(reason, start, before[1])
    account.decoded += size - at if at < size else 0


def decompress_file(
    path: InputFile, limits: Limits, account: Account | None = None, *, start: int = 0, resume: bool = True
) -> Iterator[bytes | Damage]:
    """Yield the content of a file, plain (from `start` on) or compressed, like `decompress`."""
    with path.open("rb") as file:
        codec = detect_codec(file.read(_LONGEST_MAGIC))
        file.seek(start)
        yield from decompress(file, codec, limits, account, resume=resume)


def decode_member(
    file: Seekable, codec: str, start: int, limits: Limits, account: Account, first: FirstPiece | None = None
) -> Iterator[bytes]:
    """Yield the content of the member at an offset, counting its bytes in `account`; raise Damage if it ends early.

    `first` is its first piece if that is already decoded.
    """
    file.seek(start)
    data = first.data if first else file.read(SMALL_MEMBER)
    read, produced = 0, 0  # `read` excludes the bytes whose decoding may not have ended
    if not data.startswith(CODECS[codec].magics):
        raise Damage("trailing_junk" if start else f"{codec}_error")
    decoder, fed = first.decoder if first else CODECS[codec].decoder(), 0
    while not decoder.eof:
        try:
            piece = first.content if first else decoder.decompress(data, _OUTPUT if produced else _FIRST_OUTPUT)
        except _ERRORS as error:
            # the failing call returned nothing: decode again up to the byte that fails
            raise Damage((yield from _decode_to_damage(file, codec, start, read, produced, account))) from error
        first = None
        fed += len(data)
        account.decoded += len(data)
        produced += len(piece)
        if piece:
            account.content += len(piece)
            yield piece
        if is_bomb(limits, account.decoded, account.content):
            raise Damage("bomb")
        data = b""
        if decoder.needs_input and not decoder.eof:
            file.seek(start + fed)
            # small reads first: members may be small, and bytes beyond a member are read again
            if not (data := file.read(min(_CHUNK, fed))):
                break
            read = fed
    if not decoder.eof:
        rest = _decode_to_damage(file, codec, start, read, produced, account)
        raise Damage((yield from rest) if CODECS[codec].exact else "truncated")
    account.decoded -= len(decoder.unused_data or b"")  # LZ4 returns None


def decode_first_piece(data: bytes, codec: str, limits: Limits) -> FirstPiece | None:
    """Return the content of the first bytes of a member; None if they are damaged or a bomb."""
    decoder = CODECS[codec].decoder()
    try:
        content = decoder.decompress(data, _FIRST_OUTPUT)
    except _ERRORS:
        return None
    return None if is_bomb(limits, len(data), len(content)) else FirstPiece(data, content, decoder)


def _decode_to_damage(
    file: Seekable, codec: str, start: int, read: int, produced: int, account: Account
) -> Generator[bytes, None, str]:
    """Yield what a damaged member holds after the first `produced` bytes; return the reason of the damage.

    Feeds single bytes after the first `read`.
    """
    decoder, seen = _exact_decoder(codec), 0
    file.seek(start)
    sizes = chain([_CHUNK] * (read // _CHUNK), [read % _CHUNK] if read % _CHUNK else [], repeat(1))
    try:
        while not decoder.eof:
            if not (data := file.read(next(sizes))):
                return "truncated"
            while data or not (decoder.needs_input or decoder.eof):
                piece = decoder.decompress(data, _OUTPUT)
                data = b""
                seen += len(piece)
                if seen > produced and (new := piece[max(0, len(piece) - (seen - produced)) :]):
                    account.content += len(new)
                    yield new
    except _ERRORS:
        pass
    return f"{codec}_error"


def _exact_decoder(codec: str) -> Decoder:
    """Return the decoder that decides what a damaged member holds."""
    return (CODECS[codec].exact or CODECS[codec].decoder)()


def find_member(file: Seekable, codec: str, start: int) -> int | None:
    """Return the offset of the first member from `start` on whose first KiB decode; None if there is none."""
    pattern = CODECS[codec].member
    while True:
        file.seek(start)
        block = file.read(_BLOCK)
        for match in pattern.finditer(block):
            file.seek(start + match.start())
            with suppress(*_ERRORS):
                _exact_decoder(codec).decompress(file.read(_PROBE), _PROBE)
                return start + match.start()
        if len(block) < _BLOCK:
            return None
        start += len(block) - _LONGEST_MAGIC


def _skip_zeros(file: BinaryIO, at: int) -> int:
    """Return the offset of the next non-zero byte: tapes and block devices pad with zeros."""
    file.seek(at)
    size = SMALL_MEMBER
    while block := file.read(size):
        if rest := block.lstrip(b"\0"):
            return at + len(block) - len(rest)
        at, size = at + len(block), _CHUNK
    return at


def decompress_body(data: bytes, decoder: Decoder, limits: Limits, most: int) -> tuple[bytes, bool]:
    """Return the decompressed body, at most `most` bytes long, and whether it is complete; ignores trailing bytes.

    Damage is raised if it does not decode (`body_error`), ends before its first byte (`truncated`), or is a `bomb`.
    """
    pieces: list[bytes] = []
    produced = 0
    unread = data
    while not decoder.eof:
        try:
            piece = decoder.decompress(unread, _OUTPUT)
        except _ERRORS as error:
            raise Damage("body_error", content=produced) from error
        unread = b""
        pieces.append(piece)
        produced += len(piece)
        if produced > most or is_bomb(limits, len(data), produced):
            raise Damage("bomb")
        if not piece and decoder.needs_input and not decoder.eof:
            if not produced:
                raise Damage("truncated")
            return b"".join(pieces), False
    return b"".join(pieces), True
