r"""Lines of a file as bytes, split at `\n` alone, each with its offset: what line-wise readers share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias

from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.charset import as_utf8
from clozeline.pipeline.ingest.formats.decompression import Damage, decompress, detect_codec
from clozeline.pipeline.ingest.formats.limits import Limits

_PIECE: Final = 1 << 20


class Cut(NamedTuple):
    """A line that damage of a compressed file cuts: why, and the bytes of it that decode."""

    reason: str
    length: int


Line: TypeAlias = bytes | int | Cut
r"""A line without its `\n`, the length of one over the limit, or what is left of one."""


def line_start(path: Path, position: int) -> int:
    """Return the offset of the first line that begins at `position` or later; the file's size where none does."""
    if position == 0:
        return 0
    with path.open("rb") as file:
        file.seek(position - 1)  # a line begins there if the byte before ends one
        at = position - 1
        while piece := file.read(_PIECE):
            end = piece.find(b"\n")
            if end != -1:
                return at + end + 1
            at += len(piece)
        return at


class ByteLines:
    r"""(offset, line without `\n`) of the lines that begin in a range; of a compressed file all lines.

    Offsets are those of the decompressed stream, of a UTF-16 file in its UTF-8 form. After damage the lines of the next
    member follow; the first of them may be the rest of a line, and `rest` is true while it is the last one given.

    Args:
        path: the file.
        start: first byte of the range.
        end: end of the range.
        limits: bounds on lines and decompression.
        account: where bytes and lines are counted, cut ones too; the user counts one that it takes while `rest` holds.
        resume: whether lines after damage are given.
    """

    def __init__(
        self, path: Path, start: int, end: int, limits: Limits, account: Account, *, resume: bool = True
    ) -> None:
        self.rest = False
        self._path = path
        self._range = start, end
        self._limits = limits
        self._account = account
        self._resume = resume

    def __iter__(self) -> Iterator[tuple[int, Line]]:
        with self._path.open("rb") as file:
            codec = detect_codec(file.read(16))
            file.seek(0)
            if codec is None:
                start, end = (line_start(self._path, position) for position in self._range)
                file.seek(start)
                pieces, at = self._between(file, start, end), start
            else:
                pieces, at = decompress(file, codec, self._limits, self._account, resume=self._resume), 0
            yield from self._split(pieces if at else as_utf8(pieces, self._account), at)

    def _between(self, file: BinaryIO, start: int, end: int) -> Iterator[bytes | Damage]:
        while piece := file.read(min(_PIECE, end - start)):
            start += len(piece)
            self._account.decoded += len(piece)
            self._account.content += len(piece)
            yield piece

    def _split(self, pieces: Iterator[bytes | Damage], at: int) -> Iterator[tuple[int, Line]]:
        limit = self._limits.line_bytes
        held: list[bytes] = []  # the beginning of a line that continues in the next piece
        length = 0
        for piece in pieces:
            if isinstance(piece, Damage):
                self._account.records += 1
                yield at, Cut(piece.reason, length)
                at, held, length, self.rest = at + length, [], 0, True
                continue
            *whole, rest = piece.split(b"\n")
            self._account.separators += len(whole)
            self._account.records += len(whole)
            for line in whole:
                held.append(line)
                length += len(line)
                self._account.records -= self.rest
                yield at, b"".join(held) if length <= limit else length
                at, held, length, self.rest = at + length + 1, [], 0, False
            length += len(rest)
            held = [*held, rest] if length <= limit else []
        if length:
            self._account.records += not self.rest
            yield at, b"".join(held) if length <= limit else length
