r"""Split a file into byte lines at `\n`, each with its offset, for the line-based readers."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, Final, TypeAlias

from clozeline.pipeline.ingest.formats.charset import recode_utf16
from clozeline.pipeline.ingest.formats.decompression import (
    Damage,
    InputFile,
    decompress_file,
    detect_codec,
    open_input,
)
from clozeline.pipeline.ingest.formats.limits import InputLimits

_PIECE_BYTES: Final = 1 << 20
_FIRST_LINES: Final = 1 << 16


Line: TypeAlias = bytes | Damage
r"""A line without its `\n`, or why it is none: the damage of a compressed file, or `line_bytes`."""


def find_line_start(path: InputFile, position: int, line_bytes: int) -> int:
    """Return the offset of the first line that starts at `position` or later, or the file size.

    If no line ends within `line_bytes`, return `position`, which is inside a line that is too long:
    no unit reads a file of one line to its end. `ByteLines` never reads a part of that line as
    another line.
    """
    with path.open("rb") as file:
        start = _find_next_line(file, position, line_bytes + 1)
    return position if start is None else start


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


@dataclass
class ByteLines:
    r"""Iterates over the lines that start in a range, as (offset, line without `\n`).

    Of a compressed file it yields all lines.

    Offsets refer to the decompressed stream, of a UTF-16 file to its UTF-8 form. With `resume`, the
    lines of the next member follow after damage. The first of them may be a partial line:
    `is_after_damage` is true until the line behind it.
    """

    path: InputFile
    start: int
    end: int
    limits: InputLimits
    resume: bool = True
    is_after_damage: bool = False

    def __iter__(self) -> Generator[tuple[int, Line], None, None]:
        with open_input(self.path) as file:
            if detect_codec(file.read(16)) is not None:
                pieces = decompress_file(self.path, self.limits, resume=self.resume)
                yield from self._split(recode_utf16(pieces), 0)
                return

            # a range starts and ends at starts of lines; another range counts a long line before it
            limit = self.limits.line_bytes
            start = _find_next_line(file, self.start, max(limit, self.end - self.start) + 1)
            following = _find_next_line(file, self.end, limit + 1)
            end = self.end if following is None else following
            if start is None or start >= end:
                return
            pieces = _read_range(file, start, end)
            if start == 0:
                pieces = recode_utf16(pieces)
            yield from self._split(pieces, start, is_cut=following is None)

    def _split(
        self, pieces: Iterator[bytes | Damage], at: int, *, is_cut: bool = False
    ) -> Iterator[tuple[int, Line]]:
        """Yield the lines of pieces.

        With `is_cut`, the last line continues behind the pieces and is too long.
        """
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
                yield at, b"".join(parts) if length <= limit else Damage("line_bytes")
                at = at + length + 1
                parts = []
                length = 0
                self.is_after_damage = False

            length += len(rest)
            parts = [*parts, rest] if length <= limit else []

        if length:
            is_short = length <= limit and not is_cut
            yield at, b"".join(parts) if is_short else Damage("line_bytes")


def _read_range(file: BinaryIO, start: int, end: int) -> Iterator[bytes | Damage]:
    file.seek(start)
    while piece := file.read(min(_PIECE_BYTES, end - start)):
        start += len(piece)
        yield piece
