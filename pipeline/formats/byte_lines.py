r"""Lines of a file as bytes, split at `\n` alone, each with its offset: what line-wise readers share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from pipeline.formats.account import Account
from pipeline.formats.decompression import Damage, decompress, detect_codec
from pipeline.formats.limits import Limits

__all__ = ["ByteLines", "line_start"]

_PIECE: Final = 1 << 20


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

    A line over the limit is given as its length. Offsets are those of the decompressed stream. After the
    last line, `damage` says why the stream ended early, if so, and `cut` the bytes of the line it cut.

    Args:
        path: the file.
        start: first byte of the range.
        end: end of the range.
        limits: bounds on lines and decompression.
        account: where bytes and lines are counted; a line cut by damage is one too.
    """

    def __init__(self, path: Path, start: int, end: int, limits: Limits, account: Account) -> None:
        self.damage: str | None = None
        self.cut = 0
        self._path = path
        self._range = start, end
        self._limits = limits
        self._account = account

    def __iter__(self) -> Iterator[tuple[int, bytes | int]]:
        with self._path.open("rb") as file:
            codec = detect_codec(file.read(16))
            file.seek(0)
            if codec is None:
                start, end = (line_start(self._path, position) for position in self._range)
                file.seek(start)
                yield from self._split(self._between(file, start, end), start)
            else:
                yield from self._split(decompress(file, codec, self._limits, self._account), 0)

    def _between(self, file: BinaryIO, start: int, end: int) -> Iterator[bytes]:
        while piece := file.read(min(_PIECE, end - start)):
            start += len(piece)
            self._account.decoded += len(piece)
            self._account.content += len(piece)
            yield piece

    def _split(self, pieces: Iterator[bytes], at: int) -> Iterator[tuple[int, bytes | int]]:
        limit = self._limits.line_bytes
        held: list[bytes] = []  # the beginning of a line that continues in the next piece
        length = 0
        for piece in self._safe(pieces):
            *whole, rest = piece.split(b"\n")
            self._account.separators += len(whole)
            self._account.records += len(whole)
            for line in whole:
                held.append(line)
                length += len(line)
                yield at, b"".join(held) if length <= limit else length
                at += length + 1
                held, length = [], 0
            length += len(rest)
            held = [*held, rest] if length <= limit else []
        if self.damage is not None:
            self._account.records += 1
            self.cut = length
        elif length:
            self._account.records += 1
            yield at, b"".join(held) if length <= limit else length

    def _safe(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        try:
            yield from pieces
        except Damage as damage:
            self.damage = damage.reason
