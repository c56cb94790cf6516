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
from typing import Any, BinaryIO, Final, Protocol

import lz4.frame
import zstandard

from clozeline.pipeline.ingest.formats.input_file import InputFile
from clozeline.pipeline.ingest.formats.limits import Limits

_SMALL_MEMBER: Final = 1 << 14  # bytes of the first read of a member; each further read doubles the total
_CHUNK: Final = 1 << 18
_OUTPUT: Final = 1 << 20
_FIRST_OUTPUT: Final = 1 << 16  # of a member, because the memory of a MiB costs more than to decode a small one
_RATIO_FREE: Final = 64 << 20  # smaller outputs may have any ratio: short repetitive files exceed 200 to 1
_ZSTD_INPUT: Final = 1024  # a block of 4 bytes may decode to 128 KiB, so 1 KiB of input gives at most 32 MiB
_WINDOW: Final = 2**27
_MEMORY: Final = 2**28
_PROBE: Final = 1 << 12
_MOST_WASTED: Final = 1 << 29  # bytes of all bombs of a file that are decoded
_BLOCK: Final = 1 << 20
_LONGEST_MAGIC: Final = 16
_ANY: Final = re.compile(b"")


def is_bomb(limits: Limits, compressed: int, decompressed: int) -> bool:
    """Return whether the output is suspiciously large for its input."""
    return decompressed > limits.decompressed_bytes or (
        decompressed > _RATIO_FREE and decompressed > limits.ratio * compressed
    )


class Damage(Exception):
    """A stream cannot be decoded further: `damaged`, `truncated`, `bomb`, or `trailing_junk`, which is no member.

    `member` is the file offset of what does not decode, `content` the bytes of content before it.
    """

    def __init__(self, reason: str, member: int = 0, content: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.member = member
        self.content = content


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


_SKIPPABLE = tuple(bytes([first, 0x2A, 0x4D, 0x18]) for first in range(0x50, 0x60))
CODECS: Final[dict[str, _Codec]] = {
    "gzip": _Codec(
        (b"\x1f\x8b\x08",),
        lambda: ZlibDecoder(31),
        re.compile(rb"\x1f\x8b\x08(?=[\x00-\x1f])"),
    ),
    "zstd": _Codec((b"\x28\xb5\x2f\xfd", *_SKIPPABLE), _Zstandard, re.compile(rb"\x28\xb5\x2f\xfd")),
    "lz4": _Codec((b"\x04\x22\x4d\x18",), lz4.frame.LZ4FrameDecompressor, re.compile(rb"\x04\x22\x4d\x18")),
    "bz2": _Codec((b"BZh",), bz2.BZ2Decompressor, re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")),
    "xz": _Codec((b"\xfd7zXZ\x00",), lambda: lzma.LZMADecompressor(memlimit=_MEMORY), re.compile(rb"\xfd7zXZ\x00\x00")),
}
REASONS: Final = ("bomb", "damaged", "trailing_junk", "truncated")
"""Every reason of `Damage` in `decompress_members`."""
_ERRORS: Final[tuple[Any, ...]] = (
    zlib.error, OSError, EOFError, ValueError, RuntimeError, lzma.LZMAError, zstandard.ZstdError,
    MemoryError,
)  # fmt: skip


def detect_codec(head: bytes) -> str | None:
    """Return the compression of a file with these first bytes, or None."""
    return next((name for name, codec in CODECS.items() if head.startswith(codec.magics)), None)


def decompress_file(path: InputFile, limits: Limits, *, resume: bool = True) -> Iterator[bytes | Damage]:
    """Yield the content of a file, plain or compressed, like `decompress_members`."""
    return (piece for _, piece in decompress_members(path, limits, resume=resume))


def decompress_members(
    path: InputFile, limits: Limits, start: int = 0, codec: str | None = None, *, resume: bool = True
) -> Iterator[tuple[int, bytes | Damage]]:
    """Yield the content of a file, plain or compressed, in pieces of at most a few MiB, each with its member's offset.

    `start` is where reading starts, in a compressed file a member, and `codec` its compression if known. Everything
    that decodes comes before the damage, and after it, with `resume`, the content from the next member on, up to
    `decompressed_bytes` of the limits.
    """
    with path.open("rb") as file:
        codec = codec or detect_codec(file.read(_LONGEST_MAGIC))
        size, progress, wasted = file.seek(0, os.SEEK_END), _Progress(), 0
        if codec is None:
            file.seek(start)
            while piece := file.read(_OUTPUT):
                yield start, piece
            return
        while (member := _skip_zeros(file, start)) < size:
            read, produced = progress.read, progress.produced
            try:
                start = yield from _decode_member(file, codec, member, limits, progress)
            except Damage as damage:
                if damage.reason == "bomb":  # it does not count for the ratio of the others
                    wasted, progress = wasted + progress.produced - produced, _Progress(read, produced)
                again = resume and wasted <= _MOST_WASTED and progress.produced <= limits.decompressed_bytes
                following = find_member(file, codec, member + 1) if again else None
                cut = damage.reason == "truncated" and following is not None
                yield member, Damage("damaged" if cut else damage.reason, member)
                if following is None:
                    return
                start = following


@dataclass
class _Progress:
    """The furthest offset that was read of a file, and the bytes decompressed so far: their ratio tells a bomb."""

    read: int = 0
    produced: int = 0


def _decode_member(
    file: BinaryIO, codec: str, start: int, limits: Limits, progress: _Progress
) -> Generator[tuple[int, bytes], None, int]:
    """Yield the content of the member at an offset, with that offset; return where it ends, or raise Damage."""
    file.seek(start)
    data = file.read(_SMALL_MEMBER)
    read, produced = 0, 0  # `read` excludes the bytes whose decoding may not have ended
    if not data.startswith(CODECS[codec].magics):
        raise Damage("trailing_junk" if progress.read else "damaged")
    decoder, fed = CODECS[codec].decoder(), 0
    while not decoder.eof:
        try:
            piece = decoder.decompress(data, _OUTPUT if produced else _FIRST_OUTPUT)
        except _ERRORS as error:
            # the failing call returned nothing: decode again up to the byte that fails
            raise Damage((yield from _decode_to_damage(file, codec, start, read, produced))) from error
        fed += len(data)
        progress.read = max(progress.read, start + fed)
        produced += len(piece)
        progress.produced += len(piece)
        if piece:
            yield start, piece
        if is_bomb(limits, progress.read, progress.produced):
            raise Damage("bomb")
        data = b""
        if decoder.needs_input and not decoder.eof:
            file.seek(start + fed)
            # small reads first: members may be small, and bytes beyond a member are read again
            if not (data := file.read(min(_CHUNK, fed))):
                break
            read = fed
    if not decoder.eof:
        raise Damage("truncated")
    unused = len(decoder.unused_data or b"")  # LZ4 returns None
    return start + fed - unused


def _decode_to_damage(
    file: BinaryIO, codec: str, start: int, read: int, produced: int
) -> Generator[tuple[int, bytes], None, str]:
    """Yield what a damaged member holds after the first `produced` bytes; return the reason of the damage.

    Feeds single bytes after the first `read`.
    """
    decoder, seen = CODECS[codec].decoder(), 0
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
                    yield start, new
    except _ERRORS:
        pass
    return "damaged"


def find_member(file: BinaryIO, codec: str, start: int, begins: re.Pattern[bytes] = _ANY) -> int | None:
    """Return the offset of the first member from `start` on whose first KiB decode, and begin so; None if none does."""
    pattern = CODECS[codec].member
    while True:
        file.seek(start)
        block = file.read(_BLOCK)
        for match in pattern.finditer(block):
            file.seek(start + match.start())
            with suppress(*_ERRORS):
                if begins.match(CODECS[codec].decoder().decompress(file.read(_PROBE), _PROBE)):
                    return start + match.start()
        if len(block) < _BLOCK:
            return None
        start += len(block) - _LONGEST_MAGIC


def _skip_zeros(file: BinaryIO, at: int) -> int:
    """Return the offset of the next non-zero byte: tapes and block devices pad with zeros."""
    file.seek(at)
    size = 1  # rarely is there one
    while block := file.read(size):
        if rest := block.lstrip(b"\0"):
            return at + len(block) - len(rest)
        at, size = at + len(block), _CHUNK
    return at


def decompress_body(data: bytes, decoder: Decoder, limits: Limits, most: int) -> tuple[bytes, bool]:
    """Return the decompressed body, at most `most` bytes long, and whether it is complete; ignores trailing bytes.

    Damage is raised if it does not decode (`damaged`), ends before its first byte (`truncated`), or is a `bomb`.
    """
    pieces: list[bytes] = []
    produced = 0
    unread = data
    while not decoder.eof:
        try:
            piece = decoder.decompress(unread, _OUTPUT)
        except _ERRORS as error:
            raise Damage("damaged", content=produced) from error
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
