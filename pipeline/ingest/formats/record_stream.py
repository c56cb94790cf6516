"""Read a file of records as a forward-only stream of decompressed bytes that knows the file offset of each byte.

Damage ends the stream; `resync` continues it at the next member of a compressed file, in a gzip file at the next member
that starts like a record.
"""

import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.decompression import (
    Damage,
    decode_first_piece,
    decode_member,
    decompress_file,
    detect_codec,
)
from clozeline.pipeline.ingest.formats.input_file import FileBytes, InputFile
from clozeline.pipeline.ingest.formats.limits import Limits

_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_FIRST_BYTES: Final = 1 << 14  # of a member; most members are shorter and decoded at once
_PROBE_BYTES: Final = 1 << 12
_MOST_STARTS: Final = 64  # offsets of members that are kept; those behind are dropped when there are more


class Position(NamedTuple):
    """The position of a byte: file offset of its gzip member (or of the stream's start), and offset in its content."""

    member: int
    inner: int


class RecordStream:
    """A stream with its unread bytes in `ahead`: `fill` reads more, `drop` moves past bytes.

    `drop` counts content in `account`; `close` counts the bytes of the file.
    """

    kind = "warc"

    def __init__(
        self, pieces: Iterator[bytes | Damage], account: Account, decoding: Account | None, start: int = 0
    ) -> None:
        self.ahead = bytearray()
        self.account = account
        self.damaged: Damage | None = None  # its `content` is that of the stream
        self.abandoned: int | None = None  # bytes of a record cut by damage, until the damage is counted
        self.abandoned_at = 0  # locator of this record
        self._decoding, self._pieces = decoding, pieces
        self._complete = b""  # content of a gzip member that was decoded at once and is not yet ahead
        self._at, self._starts, self._members = 0, [0], [start]

    def fill(self) -> bool:
        """Read more bytes; False at the end, or at damage, which `damaged` then describes."""
        piece = next(self._pieces, b"") if self.damaged is None else b""
        if isinstance(piece, Damage):
            self.damaged = piece
            return False
        self.ahead += piece
        return bool(piece)

    def ensure(self, count: int) -> bool:
        """Read until at least `count` bytes are ahead; return whether they are."""
        while len(self.ahead) < count:
            if not self.fill():
                return False
        return True

    @property
    def next_member(self) -> int:
        """Offset of the member that `peek_member` returns."""
        return self._members[-1]

    def peek_member(self) -> bytes:
        """Return the content of the next gzip member if it is decoded at once and nothing is ahead; else nothing."""
        return self._complete

    def ends_member(self, count: int) -> bool:
        """Return whether the gzip member that is ahead ends intact after `count` bytes, without reading another one."""
        return False

    def drop(self, count: int) -> None:
        """Move past `count` bytes."""
        del self.ahead[:count]
        self._complete = b""
        self.account.content += count
        self._at += count
        if len(self._starts) > _MOST_STARTS:
            keep = bisect_right(self._starts, self._at) - 1
            del self._starts[:keep], self._members[:keep]

    def abandon(self, locator: int, dropped: int = 0) -> None:
        """Drop the record at `locator`, up to the damage; `dropped` bytes of it are already dropped."""
        self.abandoned, self.abandoned_at = dropped + len(self.ahead), locator
        self.drop(len(self.ahead))

    def is_at_damage(self) -> bool:
        return self.damaged is not None and self.damaged.content == self._at

    def position(self, offset: int = 0) -> Position:
        """Return the position of the byte `offset` bytes ahead."""
        index = bisect_right(self._starts, self._at + offset) - 1
        return Position(self._members[index], self._at + offset - self._starts[index])

    def is_boundary(self, offset: int) -> bool:
        """Return whether a member is known to start `offset` bytes ahead."""
        return self.damaged is not None and self.damaged.content == self._at + offset

    def locate(self, position: Position) -> int:
        """Return the locator of a record that starts at a position."""
        return position.member + position.inner

    def is_beyond(self, position: Position, end: int) -> bool:
        """Return whether a record that starts there belongs to a later range; unsplittable files have one range."""
        return self._decoding is None and position.member + position.inner >= end

    def resync(self, end: int) -> bool:
        """Continue after the damage; False if no record starts before `end`."""
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
    """A stream over gzip members."""

    kind = "warc-gz"

    def __init__(
        self,
        path: InputFile,
        start: int,
        limits: Limits,
        begins_record: Callable[[bytes], bool],
        account: Account,
    ) -> None:
        super().__init__(iter(()), account, None, start)
        self._size = path.stat().st_size
        self._data = FileBytes(path.open("rb"), self._size)
        self._limits, self._begins_record = limits, begins_record
        self._decoded: dict[int, int] = {}  # sizes of the completely decoded members by their offset
        # the rest of the member that is being decoded, what it took of the file so far, and the next member's offset;
        # none refers to the stream: in a cycle, file and bytes would stay until a garbage collection
        self._content: Iterator[bytes] | None = None
        self._member, self._next = Account(), start

    def fill(self) -> bool:
        while not self._take_piece():
            if self.damaged is not None or not self._begin_member():
                return False
        return True

    def _take_piece(self) -> bool:
        """Put the next piece of the current member ahead; False at its end or at damage."""
        piece, self._complete = self._complete, b""
        if self._content is not None:
            try:
                piece = next(self._content, b"")
            except Damage as damage:
                self.damaged, self._content = Damage(damage.reason, self._members[-1], self._starts[-1]), None
                return False
            if not piece:
                self._end_member(self._member.decoded)
        self.ahead += piece
        return bool(piece)

    def _begin_member(self) -> bool:
        """Note where the next member starts, in the stream and in the file; False if there is none."""
        if self._next >= self._size:
            return False
        start = self._at + len(self.ahead)
        if start == self._starts[-1]:
            self._members[-1] = self._next  # the previous member was empty
        else:
            self._starts.append(start)
            self._members.append(self._next)
        head = self._data[self._next : self._next + _FIRST_BYTES]
        if not head.startswith(_GZIP_MAGIC):
            self.damaged = Damage("not_gzip", self._next, start)
            return False
        first = decode_first_piece(head, "gzip", self._limits)
        if first is not None and first.decoder.eof:
            self._complete = first.content
            self._end_member(len(head) - len(first.decoder.unused_data))
            return True
        self._member = Account()
        self._content = decode_member(self._data, "gzip", self._next, self._limits, self._member, first)
        return True

    def _end_member(self, size: int) -> None:
        self._decoded[self._next] = size
        self._next += size
        self._content = None

    def peek_member(self) -> bytes:
        while not (self._complete or self.ahead or self._content or self.damaged) and self._begin_member():
            pass
        return self._complete

    def ends_member(self, count: int) -> bool:
        while self._content is not None and len(self.ahead) <= count and self._take_piece():
            pass
        return len(self.ahead) == count and self.damaged is None

    def is_boundary(self, offset: int) -> bool:
        return self.position(offset).inner == 0

    def locate(self, position: Position) -> int:
        return position.member

    def is_beyond(self, position: Position, end: int) -> bool:
        return position.inner == 0 and position.member >= end

    def find_member(self, after: int, end: int) -> int:
        """Return the offset of the first member in [after, end) that starts like a record; -1 if there is none."""
        at = after - 1
        while (at := self._data.find(_GZIP_MAGIC, at + 1, end + 2)) != -1:
            with suppress(zlib.error):
                head = zlib.decompressobj(31).decompress(self._data[at : at + _PROBE_BYTES], 256)
                if self._begins_record(head):
                    break
        return at

    def resync(self, end: int) -> bool:
        assert self.damaged is not None
        at = self.find_member(self.damaged.member + 1, end)
        self.account.pass_over(self.damaged.reason, (end if at == -1 else at) - self.damaged.member)
        if at == -1:
            return False
        self.damaged = None
        self._at, self._starts, self._members = 0, [0], [at]
        self._next = at
        return True

    def close(self, stop: int, end: int) -> None:
        self.account.decoded += sum(size for member, size in self._decoded.items() if member < stop)
        self.account.content += len(self.ahead) if self.position().member < stop else 0
        self.account.read_twice += max(0, stop - end)


def open_record_stream(
    path: InputFile, start: int, limits: Limits, begins_record: Callable[[bytes], bool], account: Account
) -> RecordStream:
    """Open the stream of a non-empty file; a file that cannot be split starts at 0."""
    with path.open("rb") as file:
        head = file.read(256)
        codec = detect_codec(head)
        if codec == "gzip" or (codec is None and path.suffix == ".gz" and not begins_record(head)):
            return _GzipRecordStream(path, start, limits, begins_record, account)
    if codec is None:
        return RecordStream(decompress_file(path, limits, start=start), account, None, start)
    decoding = Account()
    return RecordStream(decompress_file(path, limits, decoding), account, decoding)


def find_record(path: InputFile, position: int, limits: Limits, begins_record: Callable[[bytes], bool]) -> int | None:
    """Return the first member from `position` of a gzip file that starts a record, else its size; None if not gzip."""
    stream = open_record_stream(path, 0, limits, begins_record, Account())
    if not isinstance(stream, _GzipRecordStream):
        return None
    size = path.stat().st_size
    member = stream.find_member(position, size)
    return size if member == -1 else member
