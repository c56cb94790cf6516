"""Decompress gzip, zstandard, LZ4, bzip2 and xz files with many members in a few MiB of memory.

Everything that decodes is yielded before an error is reported. After damage, decoding continues at
the next member.
"""

import bz2
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final, Literal, Protocol

import brotli
import lz4.frame
import zstandard

from clozeline.errors import ConfigurationError, StorageError
from clozeline.memory import explain_share, memory_share
from clozeline.pipeline.ingest.formats.limits import LARGEST_WINDOW, InputLimits

_FIRST_READ_BYTES: Final = 1 << 14
"""Bytes of the first read of a member; each further read doubles the total."""
_READ_BYTES: Final = 1 << 18
"""Maximum bytes of a later read of a member."""
_OUTPUT_BYTES: Final = 1 << 20
"""Maximum bytes of a decompressed piece, where the library allows a maximum."""
_RATIO_FREE_BYTES: Final = 64 << 20
"""Outputs up to this size may have any ratio: short repetitive files exceed 200 to 1."""
_PROBE_BYTES: Final = 1 << 10
"""First bytes of a member that show its window, or that it can be decoded."""
_MOST_BOMB_BYTES: Final = 1 << 29
"""Decoded bytes of all decompression bombs of a file together."""
_SEARCH_BYTES: Final = 1 << 20
"""Bytes of a block in which the next member is searched."""
_LONGEST_MAGIC: Final = 16
"""Bytes that suffice to detect a format or the start of a member."""
_ANY_CONTENT: Final = re.compile(b"")


class FileStat(Protocol):
    """The size of a file."""

    @property
    def st_size(self) -> int: ...


class InputFile(Protocol):
    """A file that can be read from any position: a `Path`, or a file of a store."""

    @property
    def name(self) -> str: ...

    @property
    def suffix(self) -> str: ...

    def open(self, mode: Literal["rb"]) -> BinaryIO: ...

    def stat(self) -> FileStat: ...


@contextmanager
def open_input(path: InputFile) -> Iterator[BinaryIO]:
    """Open a file for reading.

    Raises:
        StorageError: it cannot be opened or read.
    """
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror or error})") from error


@dataclass(frozen=True, slots=True)
class _Codec:
    """A compression format.

    Its decoders have `decompress`, `eof` and `unused_data`, as in the standard library.
    """

    magics: tuple[bytes, ...]
    """first bytes of a member; empty for the encodings of HTTP alone, which have none"""
    decoder: Callable[[], Any]
    """accepts every window that the library decodes, and allocates memory as content comes"""
    step: int
    """bytes of input per call: at most about 32 MiB of output, if the library cannot limit it"""
    member: re.Pattern[bytes] = _ANY_CONTENT
    """first bytes of a member with content, searched for after damage"""
    window: Callable[[bytes], int] | None = None
    """from the first bytes of a member: maximum bytes of content that its decoder holds"""
    file_decoder: Callable[[BinaryIO], Callable[[], Any]] | None = None
    """returns the factory of decoders for a file that may begin with a dictionary"""


_ZSTD_SKIPPABLE = tuple(bytes([first, 0x2A, 0x4D, 0x18]) for first in range(0x50, 0x60))
_ZSTD = b"\x28\xb5\x2f\xfd"
_LZ4 = b"\x04\x22\x4d\x18"
_XZ = b"\xfd7zXZ\x00"
_ZSTD_WINDOW: Final = 1 << 31
_ZSTD_DICTIONARY: Final = b"\x5d\x2a\x4d\x18"
_DICTIONARY_BYTES: Final = 1 << 24
_XZ_MEMORY: Final = LARGEST_WINDOW + (1 << 20)
"""Bytes of the largest dictionary, and of the decoder's other buffers."""


def _find_zstd_window(head: bytes) -> int:
    """Return the window size of the frame that starts with `head`; 0 if `head` is too short."""
    with suppress(zstandard.ZstdError):
        frame = zstandard.get_frame_parameters(head)
        if frame.window_size <= _ZSTD_WINDOW:  # no frame that can be decoded has a larger window
            return int(frame.window_size)
    return 0


def _choose_zstd_decoder(file: BinaryIO) -> Callable[[], Any]:
    """Return a factory of decoders for a file whose first frame may hold a dictionary.

    `.warc.zst` files have such a frame; decoders skip the frame itself. Its dictionary may be
    compressed (WARC Zstandard, IIPC, 2021).
    """
    file.seek(0)
    head = file.read(8)
    size = int.from_bytes(head[4:], "little")
    if not head.startswith(_ZSTD_DICTIONARY) or size > _DICTIONARY_BYTES:
        return _make_zstd_decoder

    content = file.read(size)

    with suppress(zstandard.ZstdError):
        if content.startswith(_ZSTD) and zstandard.frame_content_size(content) <= _DICTIONARY_BYTES:
            packed = zstandard.ZstdDecompressor(max_window_size=_DICTIONARY_BYTES)
            content = packed.decompress(content, max_output_size=_DICTIONARY_BYTES)
        dictionary = zstandard.ZstdCompressionDict(content, dict_type=zstandard.DICT_TYPE_FULLDICT)
        decompressor = zstandard.ZstdDecompressor(
            dict_data=dictionary, max_window_size=_ZSTD_WINDOW
        )
        return decompressor.decompressobj

    return _make_zstd_decoder


def _make_zstd_decoder() -> object:
    return zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()


def _find_xz_window(head: bytes) -> int:
    """Return a power of two that bounds the dictionary of a stream; 0 if `head` is too short."""
    for power in range(16, 33):
        window = 1 << power
        with suppress(MemoryError):
            try:
                lzma.LZMADecompressor(memlimit=window + (1 << 20)).decompress(head, 1)
            except lzma.LZMAError as error:
                if "limit" in str(error):
                    continue
                return 0
        return window
    return 0


class _BrotliDecoder(brotli.Decompressor):  # type: ignore[misc]
    """brotli's decoder with the interface of the standard library; it fails on bytes behind."""

    unused_data = b""

    def decompress(self, data: bytes, max_length: int) -> Any:
        return self.process(data, output_buffer_limit=max_length)

    @property
    def eof(self) -> Any:
        return self.is_finished()

    @property
    def needs_input(self) -> Any:
        return self.can_accept_more_data()


CODECS: Final[dict[str, _Codec]] = {
    "gzip": _Codec(
        (b"\x1f\x8b\x08",),
        lambda: zlib.decompressobj(31),
        1 << 14,
        re.compile(rb"\x1f\x8b\x08(?=[\x00-\x1f])"),
    ),
    "zstd": _Codec(
        (_ZSTD, *_ZSTD_SKIPPABLE),
        _make_zstd_decoder,
        1 << 10,
        re.compile(re.escape(_ZSTD)),
        _find_zstd_window,
        _choose_zstd_decoder,
    ),
    "lz4": _Codec((_LZ4,), lz4.frame.LZ4FrameDecompressor, 1 << 14, re.compile(re.escape(_LZ4))),
    "bz2": _Codec(
        (b"BZh",), bz2.BZ2Decompressor, 1 << 10, re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
    ),
    "xz": _Codec(
        (_XZ,),
        lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY),
        1 << 10,
        re.compile(re.escape(_XZ) + b"\0"),
        _find_xz_window,
    ),
    "zlib": _Codec((), zlib.decompressobj, 1 << 14),
    "deflate": _Codec((), lambda: zlib.decompressobj(-15), 1 << 14),
    "br": _Codec((), _BrotliDecoder, 1 << 10),
}
_NO_MEMORY: Final = "not enough memory"
"""The text of zstandard's error, which is not a MemoryError."""
DAMAGE_REASONS: Final = ("bomb", "damaged", "trailing_junk", "truncated")
"""Every reason of `Damage` in `decompress_members`."""
DECODER_ERRORS: Final[tuple[Any, ...]] = (
    zlib.error,
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    lzma.LZMAError,
    brotli.error,
    zstandard.ZstdError,
    MemoryError,
)
"""Exceptions that decoders raise on damaged data."""


def is_bomb(limits: InputLimits, compressed: int, decompressed: int) -> bool:
    """Return whether the output is suspiciously large for its input."""
    return decompressed > limits.decompressed_bytes or (
        decompressed > _RATIO_FREE_BYTES and decompressed > limits.ratio * compressed
    )


@dataclass(eq=False)
class Damage(Exception):
    """A stream cannot be decoded further.

    Reasons are `damaged`, `truncated`, `bomb`, and `trailing_junk` (bytes behind the last member).

    `member` is the file offset where decoding fails; `lost_bytes` is the number of undecoded bytes.
    """

    reason: str
    member: int = 0
    lost_bytes: int = 0


def explain_lost(size: int) -> str:
    """Return a message with the number of undecodable bytes; "" if there are none."""
    return f"{size:,} bytes of the file do not decode" if size else ""


def decode_with(decoder: Any, data: bytes) -> Iterator[bytes]:
    """Yield the content of some bytes of input, in small pieces where the library allows it."""
    if not hasattr(decoder, "needs_input"):
        yield decoder.decompress(data)
        return
    yield decoder.decompress(data, _OUTPUT_BYTES)
    while not (decoder.eof or decoder.needs_input):
        yield decoder.decompress(b"", _OUTPUT_BYTES)


def detect_codec(head: bytes) -> str | None:
    """Return the compression of a file with these first bytes, or None."""
    return next((name for name, codec in CODECS.items() if head.startswith(codec.magics)), None)


def decompress_file(
    path: InputFile, limits: InputLimits, *, resume: bool = True
) -> Iterator[bytes | Damage]:
    """Yield the content of a file, compressed or not, like `decompress_members`."""
    return (piece for _, piece in decompress_members(path, limits, resume=resume))


def decompress_members(
    path: InputFile,
    limits: InputLimits,
    start: int = 0,
    codec: str | None = None,
    *,
    resume: bool = True,
    most_members: int = sys.maxsize,
) -> Iterator[tuple[int, bytes | Damage]]:
    """Yield the content of a file, compressed or not, with the offset of its member.

    Pieces have at most a few MiB.

    `start` is the offset where reading starts, in a compressed file the start of a member; `codec`
    is the compression of the file, if known. Everything that can be decoded is yielded before the
    damage. With `resume`, the content of the next members follows, up to `decompressed_bytes` of
    the limits. Behind `most_members` members follows the damage `too_many`.

    Raises:
        ConfigurationError: a member needs a larger window than the limits allow.
    """
    with open_input(path) as file:
        codec = codec or detect_codec(file.read(_LONGEST_MAGIC))
        size = file.seek(0, os.SEEK_END)

        # an uncompressed file is one member
        if codec is None:
            file.seek(start)
            while piece := file.read(_OUTPUT_BYTES):
                yield start, piece
            return

        progress = _Progress()
        bomb_bytes = 0
        chosen = CODECS[codec]
        make_decoder = chosen.file_decoder(file) if chosen.file_decoder else chosen.decoder

        while (member := _skip_zeros(file, start) if chosen.magics else start) < size:
            most_members -= 1
            if most_members < 0:
                yield member, Damage("too_many", member, size - member)
                return
            read = progress.read
            produced = progress.produced

            if chosen.window is not None:
                file.seek(member)
                window = chosen.window(file.read(_PROBE_BYTES))
                _check_window(path, window, member, size - member, limits)

            try:
                start = yield from _decode_member(
                    file, codec, make_decoder, member, limits, progress
                )
            except MemoryError as error:
                raise ConfigurationError(
                    f"{path}: not enough memory to decompress the {codec} data at byte {member:,}: "
                    "set a smaller executor.workers, or give the processes more memory"
                ) from error
            except Damage as damage:
                if damage.reason == "bomb":  # a bomb does not change the ratio of other members
                    bomb_bytes = bomb_bytes + progress.produced - produced
                    progress = _Progress(read, produced)
                can_resume = (
                    resume
                    and bomb_bytes <= _MOST_BOMB_BYTES
                    and progress.produced <= limits.decompressed_bytes
                )
                following = (
                    find_member(file, codec, member + 1, make_decoder=make_decoder)
                    if can_resume
                    else None
                )

                # a truncated member is damaged if another member follows it
                is_inside = damage.reason == "truncated" and following is not None
                lost = max(0, (size if following is None else following) - damage.member)
                yield member, Damage("damaged" if is_inside else damage.reason, member, lost)
                if following is None:
                    return
                start = following


def _check_window(
    path: InputFile, window: int, member: int, left: int, limits: InputLimits
) -> None:
    """Raise ConfigurationError if the window of a member is larger than the limits allow.

    Without a configured limit, the available memory is the limit. `left` is the number of bytes
    from the member to the end of the file.
    """
    allowed = limits.window_bytes
    origin = ""
    if allowed is None:
        # however large the window is, a decoder takes memory only for content that it decodes
        window = min(window, max(_RATIO_FREE_BYTES, limits.ratio * left))
        if window <= _RATIO_FREE_BYTES:
            return
        allowed = memory_share()
        origin = f", by default {explain_share()}"

    if window > allowed:
        raise ConfigurationError(
            f"{path}: expected a compression window of at most {allowed:,} bytes "
            f"(limits.window_bytes{origin}), found one of {window:,} at byte {member:,}: set "
            f"limits.window_bytes={window}, and a smaller executor.workers if not all of them can "
            "have so much memory"
        )


@dataclass
class _Progress:
    """Bytes of the file read so far, and bytes decompressed: their ratio reveals a bomb."""

    read: int = 0
    produced: int = 0


def _decode_member(
    file: BinaryIO,
    codec: str,
    make_decoder: Callable[[], Any],
    start: int,
    limits: InputLimits,
    progress: _Progress,
) -> Generator[tuple[int, bytes], None, int]:
    """Yield (start, content) of the member that starts at `start`; return where the member ends.

    Raises:
        Damage: the member cannot be decoded to its end.
    """
    file.seek(start)
    data = file.read(_FIRST_READ_BYTES)
    step = CODECS[codec].step
    magics = CODECS[codec].magics
    if magics and not data.startswith(magics):
        raise Damage("trailing_junk" if progress.read else "damaged", start)
    decoder = make_decoder()
    fed = 0
    decoded = start  # content from here on is missing if damage follows

    while True:
        for offset in range(0, len(data), step):
            chunk = data[offset : offset + step]
            progress.read = max(progress.read, start + fed + len(chunk))
            produced = progress.produced

            try:
                for piece in decode_with(decoder, chunk):
                    progress.produced += len(piece)
                    if piece:
                        decoded = start + fed
                        yield start, piece
                    if is_bomb(limits, progress.read, progress.produced):
                        raise Damage("bomb", decoded)
            except DECODER_ERRORS as error:
                if isinstance(error, MemoryError) or _NO_MEMORY in str(error):
                    raise MemoryError(codec) from error
                seen = progress.produced - produced
                end = yield from _decode_to_damage(file, step, make_decoder(), start, fed, seen)
                if end is not None:
                    return end
                raise Damage("damaged", decoded) from error

            fed += len(chunk)
            if decoder.eof:
                return start + fed - len(decoder.unused_data or b"")  # LZ4 returns None

        file.seek(start + fed)
        # small reads first: members may be small, and bytes beyond a member are read again
        if not (data := file.read(min(_READ_BYTES, fed))):
            raise Damage("truncated", decoded)


def _decode_to_damage(
    file: BinaryIO, step: int, decoder: Any, start: int, fed: int, seen: int
) -> Generator[tuple[int, bytes], None, int | None]:
    """Yield (start, content) of a damaged member after its first `fed` bytes.

    Return where the member ends, if the decoder failed on the bytes behind it.

    The first `seen` bytes of the content were already yielded. The last chunk is decoded byte by
    byte, because the call that failed on the whole chunk returned nothing.
    """
    file.seek(start)
    with suppress(*DECODER_ERRORS):
        for left in range(fed, 0, -step):
            for _ in decode_with(decoder, file.read(min(step, left))):
                pass
        for byte in file.read(step):
            for piece in decode_with(decoder, bytes([byte])):
                if new := piece[seen:]:
                    yield start, new
                seen = max(0, seen - len(piece))
            fed += 1
            if decoder.eof:
                return start + fed
    return None


def find_member(
    file: BinaryIO,
    codec: str,
    start: int,
    content_start: re.Pattern[bytes] = _ANY_CONTENT,
    make_decoder: Callable[[], Any] | None = None,
    end: int = sys.maxsize,
) -> int | None:
    """Return the offset of the first valid member from `start` on, or None; it may be behind `end`.

    No block behind `end` is read. A member is valid if its first KiB can be decoded to content that
    matches `content_start`.
    """
    pattern = CODECS[codec].member
    make_decoder = make_decoder or CODECS[codec].decoder

    while start < end:
        file.seek(start)
        block = file.read(_SEARCH_BYTES)
        for match in pattern.finditer(block):
            file.seek(start + match.start())
            with suppress(*DECODER_ERRORS):
                if content_start.match(make_decoder().decompress(file.read(_PROBE_BYTES))):
                    return start + match.start()
        if len(block) < _SEARCH_BYTES:
            return None
        start += len(block) - _LONGEST_MAGIC
    return None


def find_content(
    path: InputFile, limits: InputLimits, start: int, end: int = sys.maxsize
) -> int | None:
    """Return the offset of the first member that starts in [start, end), or None.

    A MiB of content must decode from there on: a few bytes in the middle of a member may look like
    the start of another.
    """
    # such bytes may state any window
    limits = replace(limits, window_bytes=LARGEST_WINDOW)
    with open_input(path) as file:
        codec = detect_codec(file.read(_LONGEST_MAGIC))
        assert codec is not None
        while (member := find_member(file, codec, start, end=end) or end) < end:
            pieces = decompress_members(path, limits, member, codec, resume=False)
            size = 0
            while isinstance(piece := next(pieces, (0, b""))[1], bytes):
                size += len(piece)
                if not piece or size >= _OUTPUT_BYTES:
                    return member
            start = member + 1
    return None


def _skip_zeros(file: BinaryIO, offset: int) -> int:
    """Return the offset of the next non-zero byte: tapes and block devices pad with zeros."""
    file.seek(offset)
    size = 1  # one byte first, because files rarely have padding
    while block := file.read(size):
        if rest := block.lstrip(b"\0"):
            return offset + len(block) - len(rest)
        offset = offset + len(block)
        size = _READ_BYTES
    return offset
