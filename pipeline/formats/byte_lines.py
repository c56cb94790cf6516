r"""Lines of a file as bytes, split at `\n` alone, each with its offset: what line-wise readers share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.formats.decompression import Damage, decompress, detect_codec
from pipeline.formats.limits import Limits

__all__ = ["ByteLines"]


class ByteLines:
    r"""(offset, line without `\n`) of the lines that begin in a range; of a compressed file all lines.

    A line over the limit is given as its length. Offsets are those of the decompressed stream. After the
    last line, `damage` says why the stream ended early, if so, and `cut` the bytes of the line it cut.

    Args:
        path: the file.
        start: first byte of the range.
        end: end of the range.
        limits: bounds on lines and decompression.
    """

    def __init__(self, path: Path, start: int, end: int, limits: Limits) -> None:
        self.damage: str | None = None
        self.cut = 0
        self._path = path
        self._range = start, end
        self._limits = limits

    def __iter__(self) -> Iterator[tuple[int, bytes | int]]:
        start, end = self._range
        with self._path.open("rb") as file:
            codec = detect_codec(file.read(16))
            first = start if codec is None else 0
            # A range begins inside a line unless the byte before it ends one.
            file.seek(max(0, first - 1))
            for offset, line in self._split(decompress(file, codec, self._limits), max(0, first - 1)):
                if codec is None and offset >= end:
                    return
                if first == 0 or offset >= first:
                    yield offset, line

    def _split(self, pieces: Iterator[bytes], at: int) -> Iterator[tuple[int, bytes | int]]:
        limit = self._limits.line_bytes
        held: list[bytes] = []  # the beginning of a line that continues in the next piece
        length = 0
        for piece in self._safe(pieces):
            *whole, rest = piece.split(b"\n")
            for line in whole:
                held.append(line)
                length += len(line)
                yield at, b"".join(held) if length <= limit else length
                at += length + 1
                held, length = [], 0
            length += len(rest)
            held = [*held, rest] if length <= limit else []
        if self.damage is not None:
            self.cut = length
        elif length:
            yield at, b"".join(held) if length <= limit else length

    def _safe(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        try:
            yield from pieces
        except Damage as damage:
            self.damage = damage.reason
