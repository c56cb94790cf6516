r"""Split a file into byte lines at `\n`, each with its offset, for the line-based readers."""

import sys
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import BinaryIO, Final, TypeAlias

from clozeline.pipeline.ingest.formats.charset import detect_utf16, recode_utf16
from clozeline.pipeline.ingest.formats.decompression import (
    Damage,
    InputFile,
    decompress_members,
    detect_codec,
    find_content,
    open_input,
)
from clozeline.pipeline.ingest.formats.limits import InputLimits

_PIECE_BYTES: Final = 1 << 20
_FIRST_LINES: Final = 1 << 16
_MEMBER_SEARCH_BYTES: Final = 1 << 24
"""First bytes of a compressed file in which a second member is searched."""
_LEAST_RANGE_BYTES: Final = 1 << 10
"""The first content of a file is in its first range, however small the ranges are."""


Line: TypeAlias = bytes | Damage
r"""A line without its `\n`, or why it is none: the damage of a compressed file, or `line_bytes`."""


def find_line_start(path: InputFile, position: int, line_bytes: int) -> int:
    """Return the offset of the first line that starts at `position` or later, or the file size.

    In a compressed file, only its start is known to start a line; return the file size otherwise,
    and if no line ends within `line_bytes`: the unit in which such a line starts counts all of it.
    """
    with path.open("rb") as file:
        is_packed = position and detect_codec(file.read(16)) is not None
        start = None if is_packed else _find_next_line(file, position, line_bytes + 1)
    return path.stat().st_size if start is None else start


def _find_next_line(file: BinaryIO, position: int, most: int) -> int | None:
    """Return where the first line at `position` or later starts, or the file size.

    Return None if no line starts within the next `most` bytes.
    """
    if position == 0:
        return 0
    at = position - 1  # a line starts at `position` if the byte before it is a line end
    last = at + most
    file.seek(at)
    while at < last:
        piece = file.readline(min(_PIECE_BYTES, last - at))
        at += len(piece)
        if not piece or piece.endswith(b"\n"):
            return at
    return None


def first_lines(path: InputFile, limits: InputLimits) -> Iterator[bytes]:
    """Yield the first lines of a file."""
    lines = islice(ByteLines(path, 0, path.stat().st_size, limits), _FIRST_LINES)
    return (line for _, line in lines if isinstance(line, bytes))


def can_cut_at_members(path: InputFile, limits: InputLimits) -> bool:
    """Return whether ranges of a compressed file can be read: it has members, and is not UTF-16.

    Only the first 16 MiB are searched for a second member.
    """
    member, piece = next(decompress_members(path, limits, resume=False), (0, b""))
    return (
        isinstance(piece, bytes)
        and detect_utf16(piece) is None
        and member < _LEAST_RANGE_BYTES
        and find_content(path, limits, member + 1, _MEMBER_SEARCH_BYTES) is not None
    )


@dataclass
class ByteLines:
    r"""Iterates over the lines that start in a range, as (offset, line without `\n`).

    A range of a compressed file has the members with content that start in it. The line that starts
    with or continues into the first of them belongs to the range before, which alone knows where
    that line starts.

    Offsets refer to the decompressed stream from the first member of the range on, of a UTF-16 file
    to its UTF-8 form; `locate` tells what they are in the file. With `resume`, the
    lines of the next member follow after damage. The first of them may be a partial line:
    `is_after_damage` is true until the line behind it.
    """

    path: InputFile
    start: int
    end: int
    limits: InputLimits
    resume: bool = True
    is_after_damage: bool = False
    _members: deque[tuple[int, int]] = field(default_factory=deque)
    """offsets of members of a compressed file in the stream and in the file, up to the last read"""
    _stop: int = sys.maxsize
    """offset of the last line of a range of a compressed file"""
    length: int = 0
    """stored bytes of the line that was yielded last; 0 in a compressed file"""

    def __iter__(self) -> Generator[tuple[int, Line], None, None]:
        with open_input(self.path) as file:
            if detect_codec(file.read(16)) is not None:
                yield from self._read_members()
                return

            # a range starts and ends at starts of lines; another range counts a long line before it
            limit = self.limits.line_bytes
            start = _find_next_line(file, self.start, max(limit, self.end - self.start) + 1)
            following = _find_next_line(file, self.end, limit + 1)
            end = self.end if following is None else following
            if start is None or start >= end:
                return
            behind = 0
            if following is None:
                most = self.limits.decompressed_bytes
                behind = (_find_next_line(file, end, most) or end + most) - end
            pieces = _read_range(file, start, end)
            if start == 0:
                pieces = recode_utf16(pieces)
            yield from self._split(pieces, start, behind)

    def locate(self, offset: int) -> tuple[int, str]:
        """Return the locator of a line, and the end of its type; `offset` never decreases.

        The locator is the offset. For a line that starts behind the first member of a compressed
        file, it is the offset of the member in the file, and the type ends with the line's offset
        in the member.
        """
        while len(self._members) > 1 and self._members[1][0] <= offset:
            self._members.popleft()
        for start, member in self._members:
            return (member, f":{offset - start}") if start or self.start else (offset, "")
        return offset, ""

    def _read_members(self) -> Iterator[tuple[int, Line]]:
        """Yield the lines of a range of a compressed file."""
        start = find_content(self.path, self.limits, self.start, self.end) if self.start else 0
        if start is None:
            return
        last = sys.maxsize
        if self.end < self.path.stat().st_size:
            last = find_content(self.path, self.limits, self.end) or last

        for offset, line in self._split(recode_utf16(self._decompress(start, last)), 0):
            damaged = line.member if isinstance(line, Damage) else 0
            if damaged >= last or offset > self._stop:
                return
            self.length = 0
            if offset or damaged or not self.start:
                yield offset, line

    def _decompress(self, start: int, last: int) -> Iterator[bytes | Damage]:
        """Yield the content of members, up to a line that starts behind the start of the last."""
        size = 0
        for member, piece in decompress_members(self.path, self.limits, start, resume=self.resume):
            if member >= last:
                self._stop = min(self._stop, size)
            if not self._members or self._members[-1][1] != member:
                self._members.append((size, member))
            yield piece
            size += len(piece) if isinstance(piece, bytes) else 0
            if size > self._stop + self.limits.line_bytes:  # of one line, which is too long
                return

    def _split(
        self, pieces: Iterator[bytes | Damage], at: int, behind: int = 0
    ) -> Iterator[tuple[int, Line]]:
        """Yield the lines of pieces; a last line with bytes `behind` them is too long."""
        limit = self.limits.line_bytes
        parts: list[bytes] = []  # start of a line that continues in the next piece
        length = 0

        for piece in pieces:
            if isinstance(piece, Damage):
                self.is_after_damage = False
                yield at, piece
                at = at + length
                parts = []
                length = 0
                self.is_after_damage = True
                continue

            # the last part continues in the next piece
            *lines, rest = piece.split(b"\n")

            for line in lines:
                parts.append(line)
                length += len(line)
                self.length = length
                yield at, b"".join(parts) if length <= limit else Damage("line_bytes")
                at = at + length + 1
                parts = []
                length = 0
                self.is_after_damage = False

            length += len(rest)
            parts = [*parts, rest] if length <= limit else []

        if length:
            is_short = length <= limit and not behind
            self.length = length + behind
            yield at, b"".join(parts) if is_short else Damage("line_bytes")


def _read_range(file: BinaryIO, start: int, end: int) -> Iterator[bytes | Damage]:
    file.seek(start)
    while piece := file.read(min(_PIECE_BYTES, end - start)):
        start += len(piece)
        yield piece
