"""A file of records as one forward-only stream of decompressed bytes, with the file offset of each byte.

Damage ends the stream; `resync` continues it at the next member of a compressed file, of a gzip file at the next one
whose content begins like a record. Files without compression are one run of bytes.
"""

from __future__ import annotations

import mmap
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.decompression import Damage, decode_member, decompress, detect_codec
from clozeline.pipeline.ingest.formats.limits import Limits

_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_PROBE_BYTES: Final = 1 << 12


class Place(NamedTuple):
    """The place of a byte: file offset of the gzip member (or of the stream's start), and bytes into its content."""

    member: int
    inner: int


class Damaged(NamedTuple):
    """The reason why the stream ended before the file, and the member it ended in: its offset in file and stream."""

    reason: str
    member: int
    start: int


class RecordStream:
    """A stream whose unread bytes are in `ahead`: `fill` lengthens it, `drop` moves past bytes.

    Content is counted in `account` when it is dropped; `close` counts the bytes of the file.
    """

    kind = "warc"

    def __init__(
        self, pieces: Iterator[bytes | Damage], account: Account, decoding: Account | None, start: int = 0
    ) -> None:
        self.ahead = bytearray()
        self.account = account
        self.damaged: Damaged | None = None
        self.abandoned: int | None = None
        """content of a record that damage cuts, until the damage is counted"""
        self._decoding = decoding
        self._pieces = pieces
        self._at = 0
        self._starts = [0]
        self._members = [start]

    def fill(self) -> bool:
        """Read more bytes; False at the end, and at damage, which `damaged` then describes."""
        piece = next(self._pieces, b"") if self.damaged is None else b""
        if isinstance(piece, Damage):
            self.damaged = Damaged(piece.reason, piece.member, piece.content)
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
        self.account.content += count
        self._at += count
        keep = bisect_right(self._starts, self._at) - 1
        if keep > 16:
            del self._starts[:keep], self._members[:keep]

    def abandon(self, dropped: int = 0) -> None:
        """Drop everything ahead of damage; `dropped` bytes of the same record were dropped before."""
        self.abandoned = dropped + len(self.ahead)
        self.drop(len(self.ahead))

    def begins_damaged_member(self) -> bool:
        """Return whether the bytes ahead are those of the member that damage ends, from its first one."""
        return self.damaged is not None and self.damaged.start == self._at

    def place(self, offset: int = 0) -> Place:
        """Return the place of the byte `offset` bytes ahead."""
        number = bisect_right(self._starts, self._at + offset) - 1
        return Place(self._members[number], self._at + offset - self._starts[number])

    def is_boundary(self, offset: int) -> bool:
        """Return whether a member is known to begin `offset` bytes ahead."""
        return self.damaged is not None and self.damaged.start == self._at + offset

    def file_offset(self, place: Place) -> int:
        """Return the locator of a record that begins at a place."""
        return place.member + place.inner

    def is_beyond(self, place: Place, end: int) -> bool:
        """Return whether a record that begins there belongs to a later range; of others only whole files are read."""
        return self._decoding is None and place.member + place.inner >= end

    def resync(self, end: int) -> bool:
        """Continue after the damage, before `end`; False where no record begins there."""
        self.damaged = None
        return self._decoding is not None

    def close(self, stop: int, end: int) -> None:
        """Count the bytes of the file up to `stop`, where reading ended; the range ends at `end`."""
        if self._decoding is None:
            self.account.decoded += self._at
            self.account.read_twice += max(0, stop - end)
            return
        self.account.content = self._decoding.content
        self.account.decoded += self._decoding.decoded
        for reason, count in self._decoding.undecoded.items():
            self.account.pass_over(reason, count)


class _GzipRecordStream(RecordStream):
    """One stream over gzip members."""

    kind = "warc-gz"

    def __init__(
        self, data: mmap.mmap, start: int, limits: Limits, begins_record: Callable[[bytes], bool], account: Account
    ) -> None:
        super().__init__(iter(()), account, None, start)
        self._data = data
        self._limits = limits
        self._begins_record = begins_record
        self._whole: list[tuple[int, int]] = []
        """first byte and size of the members decoded to their end, but not counted yet"""
        self._pieces = self._decode(start)

    def is_boundary(self, offset: int) -> bool:
        return self.place(offset).inner == 0

    def file_offset(self, place: Place) -> int:
        return place.member

    def is_beyond(self, place: Place, end: int) -> bool:
        return place.inner == 0 and place.member >= end

    def next_member(self, after: int, end: int) -> int:
        """Return the offset of the first member in [after, end) that begins like a record; -1 without one."""
        at = self._data.find(_GZIP_MAGIC, after, end + 2)
        while at != -1 and not self._begins_record(self._probe(at)):
            at = self._data.find(_GZIP_MAGIC, at + 1, end + 2)
        return at

    def resync(self, end: int) -> bool:
        assert self.damaged is not None
        at = self.next_member(self.damaged.member + 1, end)
        self.account.pass_over(self.damaged.reason, (end if at == -1 else at) - self.damaged.member)
        if at == -1:
            return False
        self.damaged = None
        self._at, self._starts, self._members = 0, [0], [at]
        self._pieces = self._decode(at)
        return True

    def close(self, stop: int, end: int) -> None:
        self.account.decoded += sum(size for member, size in self._whole if member < stop)
        self.account.content += len(self.ahead) if self.place().member < stop else 0
        self.account.read_twice += max(0, stop - end)

    def _probe(self, at: int) -> bytes:
        try:
            return zlib.decompressobj(31).decompress(self._data[at : at + _PROBE_BYTES], 256)
        except zlib.error:
            return b""

    def _decode(self, at: int) -> Iterator[bytes | Damage]:
        size = len(self._data)
        while at < size:
            start = self._mark(at)
            account = Account()
            if self._data[at : at + 3] != _GZIP_MAGIC:
                yield Damage("not_gzip", at, start)
                return
            try:
                yield from decode_member(self._data, "gzip", at, self._limits, account)
            except Damage as damage:
                yield Damage(damage.reason, at, start)
                return
            self._whole.append((at, account.decoded))
            at += account.decoded

    def _mark(self, member: int) -> int:
        """Note that a member begins after what is ahead; return where, in bytes of the stream."""
        start = self._at + len(self.ahead)
        if start == self._starts[-1]:
            self._members[-1] = member  # the member before was empty
        else:
            self._starts.append(start)
            self._members.append(member)
        return start


def open_record_stream(
    path: Path, start: int, limits: Limits, begins_record: Callable[[bytes], bool], account: Account
) -> RecordStream:
    """Open the stream of a file that is not empty, from `start` on where it can be split."""
    with path.open("rb") as file:
        head = file.read(256)
        codec = detect_codec(head)
        if codec == "gzip" or (codec is None and path.suffix == ".gz" and not begins_record(head)):
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return _GzipRecordStream(data, start, limits, begins_record, account)
    if codec is None:
        return RecordStream(_pieces(path, None, start, limits, None), account, None, start)
    decoding = Account()
    return RecordStream(_pieces(path, codec, 0, limits, decoding), account, decoding)


def next_record(path: Path, position: int, limits: Limits, begins_record: Callable[[bytes], bool]) -> int | None:
    """Return the first member of a gzip file at a position or after it that begins like a record, or its size.

    None: the file is not gzip.
    """
    stream = open_record_stream(path, 0, limits, begins_record, Account())
    if not isinstance(stream, _GzipRecordStream):
        return None
    size = path.stat().st_size
    found = stream.next_member(position, size)
    return size if found == -1 else found


def _pieces(
    path: Path, codec: str | None, first: int, limits: Limits, account: Account | None
) -> Iterator[bytes | Damage]:
    with path.open("rb") as file:
        file.seek(first)
        yield from decompress(file, codec, limits, account)
