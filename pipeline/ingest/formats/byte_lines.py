r"""Split a file into byte lines at `\n`, each with its offset, for the line-based readers."""

from collections.abc import Generator, Iterator
from typing import BinaryIO, Final, NamedTuple, TypeAlias

from clozeline.pipeline.ingest.formats.charset import recode_utf16
from clozeline.pipeline.ingest.formats.decompression import Damage, InputFile, decompress_file, detect_codec
from clozeline.pipeline.ingest.formats.limits import Limits

_PIECE: Final = 1 << 20
_FIRST_PIECE: Final = 1 << 12  # of the search for a line end, which is near as a rule


class Cut(NamedTuple):
    """A line cut by damage of a compressed file: the reason, and how many bytes of the file are not decoded."""

    reason: str
    lost: int = 0


Line: TypeAlias = bytes | int | Cut
r"""A line without its `\n`, the length of a line over the limit, or a cut line."""


def find_line_start(path: InputFile, position: int) -> int:
    """Return the offset of the first line that starts at `position` or later; the size of the file if none does."""
    if position == 0:
        return 0
    with path.open("rb") as file:
        file.seek(position - 1)  # a line starts at `position` if the byte before it is a line end
        at, size = position - 1, _FIRST_PIECE
        while piece := file.read(size):
            end = piece.find(b"\n")
            if end != -1:
                return at + end + 1
            at, size = at + len(piece), min(_PIECE, 2 * size)
        return at


class ByteLines:
    r"""Iterates over (offset, line without `\n`) of the lines that start in a range; all lines of a compressed file.

    Offsets refer to the decompressed stream, of a UTF-16 file to its UTF-8 form. After damage, the lines of the next
    member follow if `resume`; the first of them may be a partial line, and `rest` is true until the line after it.
    """

    def __init__(self, path: InputFile, start: int, end: int, limits: Limits, *, resume: bool = True) -> None:
        self.rest = False
        self._path, self._range, self._limits, self._resume = path, (start, end), limits, resume

    def __iter__(self) -> Generator[tuple[int, Line], None, None]:
        with self._path.open("rb") as file:
            if detect_codec(file.read(16)) is not None:
                pieces = decompress_file(self._path, self._limits, resume=self._resume)
                yield from self._split(recode_utf16(pieces), 0)
                return
            start, end = (find_line_start(self._path, position) for position in self._range)
            pieces = _read_range(file, start, end)
            yield from self._split(pieces if start else recode_utf16(pieces), start)

    def _split(self, pieces: Iterator[bytes | Damage], at: int) -> Iterator[tuple[int, Line]]:
        limit = self._limits.line_bytes
        parts: list[bytes] = []  # start of a line that continues in the next piece
        length = 0
        for piece in pieces:
            if isinstance(piece, Damage):
                yield at, Cut(piece.reason, piece.lost)
                at, parts, length, self.rest = at + length, [], 0, True
                continue
            *lines, rest = piece.split(b"\n")
            for line in lines:
                parts.append(line)
                length += len(line)
                yield at, b"".join(parts) if length <= limit else length
                at, parts, length, self.rest = at + length + 1, [], 0, False
            length += len(rest)
            parts = [*parts, rest] if length <= limit else []
        if length:
            yield at, b"".join(parts) if length <= limit else length


def _read_range(file: BinaryIO, start: int, end: int) -> Iterator[bytes | Damage]:
    file.seek(start)
    while piece := file.read(min(_PIECE, end - start)):
        start += len(piece)
        yield piece
