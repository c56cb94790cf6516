"""A file of records as one forward-only stream of decompressed bytes, with the file offset of each byte.

Gzip files are decoded member by member. A damaged member ends the stream; `resync` continues it at the next member
whose content begins like a record. Other files are one run of bytes.
"""

from __future__ import annotations

import mmap
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from pipeline.formats.decompression import Damage, decompress, detect_codec, is_bomb
from pipeline.formats.limits import Limits

__all__ = ["Damaged", "Place", "RecordStream", "open_record_stream"]

_INPUT: Final = 1 << 16
_OUTPUT: Final = 1 << 20
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_PROBE_BYTES: Final = 1 << 12


class Place(NamedTuple):
    """The place of a byte: file offset of the gzip member (or of the stream's start), and bytes into its content."""

    member: int
    inner: int


class Damaged(NamedTuple):
    """The reason why the stream ended before the file, and the member it ended in."""

    reason: str
    member: int


class RecordStream:
    """A stream whose unread bytes are in `ahead`: `fill` lengthens it, `drop` moves past bytes."""

    kind = "warc"

    def __init__(self, pieces: Iterator[bytes], start: int = 0, *, ranged: bool = False) -> None:
        self.ahead = bytearray()
        self._ranged = ranged
        self.damaged: Damaged | None = None
        self._pieces = pieces
        self._at = 0
        self._starts = [0]
        self._members = [start]

    def fill(self) -> bool:
        """Read more bytes; False at the end, and at damage, which `damaged` then describes."""
        try:
            piece = next(self._pieces, b"")
        except Damage as damage:
            self.damaged = Damaged(damage.reason, self._members[-1])
            return False
        self.ahead += piece
        return bool(piece)

    def ensure(self, count: int) -> bool:
        """Return whether at least `count` bytes are ahead, after reading as far as needed."""
        while len(self.ahead) < count:
            if not self.fill():
                return False
        return True

    def drop(self, count: int) -> None:
        """Move past `count` bytes that are ahead."""
        del self.ahead[:count]
        self._at += count
        keep = bisect_right(self._starts, self._at) - 1
        if keep > 16:
            del self._starts[:keep], self._members[:keep]

    def place(self, offset: int = 0) -> Place:
        """Return the place of the byte `offset` bytes ahead."""
        number = bisect_right(self._starts, self._at + offset) - 1
        return Place(self._members[number], self._at + offset - self._starts[number])

    def file_offset(self, place: Place) -> int:
        """Return the locator of a record that begins at a place."""
        return place.member + place.inner

    def is_beyond(self, place: Place, end: int) -> bool:
        """Return whether a record that begins there belongs to a later range; only uncompressed files have ranges."""
        return self._ranged and place.member + place.inner >= end

    def resync(self, after: int, end: int) -> bool:
        """Continue after damage, at a place in [after, end); False where no record begins there."""
        return False


class _GzipRecordStream(RecordStream):
    """One stream over gzip members."""

    kind = "warc-gz"

    def __init__(self, data: mmap.mmap, limits: Limits, begins_record: Callable[[bytes], bool]) -> None:
        super().__init__(iter(()))
        self._data = data
        self._limits = limits
        self._begins_record = begins_record
        self._pieces = self._decode(0)

    def file_offset(self, place: Place) -> int:
        return place.member

    def is_beyond(self, place: Place, end: int) -> bool:
        return place.inner == 0 and place.member >= end

    def resync(self, after: int, end: int) -> bool:
        at = self._data.find(_GZIP_MAGIC, after, end + 2)
        while at != -1 and not self._begins_record(self._probe(at)):
            at = self._data.find(_GZIP_MAGIC, at + 1, end + 2)
        if at == -1:
            return False
        self.ahead.clear()
        self.damaged = None
        self._at, self._starts, self._members = 0, [0], [at]
        self._pieces = self._decode(at)
        return True

    def _probe(self, at: int) -> bytes:
        try:
            return zlib.decompressobj(31).decompress(self._data[at : at + _PROBE_BYTES], 256)
        except zlib.error:
            return b""

    def _decode(self, at: int) -> Iterator[bytes]:
        size = len(self._data)
        while at < size:
            self._mark(at)
            if self._data[at : at + 3] != _GZIP_MAGIC:
                raise Damage("not_gzip")
            decoder = zlib.decompressobj(31)
            read, produced = at, 0
            while not decoder.eof:
                block = decoder.unconsumed_tail or self._data[read : read + _INPUT]
                read += 0 if decoder.unconsumed_tail else len(block)
                piece = _inflate(decoder, block)
                produced += len(piece)
                if is_bomb(self._limits, read - at, produced):
                    raise Damage("bomb")
                if piece:
                    yield piece
                elif not block and not decoder.eof:
                    raise Damage("truncated")
            at = read - len(decoder.unused_data)

    def _mark(self, member: int) -> None:
        start = self._at + len(self.ahead)
        if start == self._starts[-1]:
            self._members[-1] = member  # the member before was empty
        else:
            self._starts.append(start)
            self._members.append(member)


def _inflate(decoder: zlib._Decompress, block: bytes) -> bytes:
    try:
        return decoder.decompress(block, _OUTPUT)
    except zlib.error as error:
        raise Damage("gzip_error") from error


def open_record_stream(path: Path, start: int, limits: Limits, begins_record: Callable[[bytes], bool]) -> RecordStream:
    """Open the stream of a file that is not empty; an uncompressed one begins one byte before `start` if it can."""
    with path.open("rb") as file:
        codec = detect_codec(file.read(16))
        if codec == "gzip" or (codec is None and path.suffix == ".gz" and not _plain(path, begins_record)):
            return _GzipRecordStream(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), limits, begins_record)
    first = max(0, start - 1) if codec is None else 0
    return RecordStream(_pieces(path, codec, first, limits), first, ranged=codec is None)


def _plain(path: Path, begins_record: Callable[[bytes], bool]) -> bool:
    with path.open("rb") as file:
        return begins_record(file.read(256))


def _pieces(path: Path, codec: str | None, first: int, limits: Limits) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(first)
        yield from decompress(file, codec, limits)
