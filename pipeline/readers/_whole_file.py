"""Files that are one document each: decompressed within bounds, decoded, never cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final

from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.documents.document import FLAG_TRUNCATED_SOURCE
from pipeline.formats.charset import decode
from pipeline.formats.decompression import REASONS, Damage, decompress, detect_codec
from pipeline.formats.limits import Limits
from pipeline.readers import Counted, Item, RawRecord

__all__ = ["WholeFile", "read_whole"]

_REASONS: Final = (*REASONS, "charset", "too_large")


class WholeFile:
    """A reader whose one record is the file. A subclass says what the file holds."""

    kind: ClassVar[str]
    """kind of the locator, part of the document uid"""
    markup: ClassVar[bool]
    """whether it is HTML, whose `<meta>` may name the encoding"""
    reasons: ClassVar[tuple[str, ...]] = _REASONS

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """None."""

    def __init__(self, options: Options, limits: Limits) -> None:
        self._limits = limits

    @staticmethod
    def splittable(head: bytes) -> bool:
        """Return False: a document is not cut."""
        return False

    def read(self, path: Path, start: int, end: int) -> Iterator[Item]:
        """Yield the one record, or the reason why the file has none."""
        found = read_whole(path, self._limits, meta=self.markup)
        if isinstance(found, Counted):
            yield found
        else:
            text, flags, size = found
            yield RawRecord(0, self.kind, size, text, markup=self.markup, flags=flags)


def read_whole(path: Path, limits: Limits, *, meta: bool) -> tuple[str, int, int] | Counted:
    """Return text, flags and the file's size in bytes; the readable part of a truncated file is kept and flagged."""
    size = path.stat().st_size
    flags, pieces, length = 0, [], 0
    with path.open("rb") as file:
        codec = detect_codec(file.read(16))
        file.seek(0)
        try:
            for piece in decompress(file, codec, limits):
                pieces.append(piece)
                length += len(piece)
                if length > limits.record_bytes:
                    return Counted("malformed", "too_large", size)
        except Damage as damage:
            if damage.reason != "truncated" or not length:
                return Counted("malformed", damage.reason, size)
            flags = FLAG_TRUNCATED_SOURCE
    decoded = decode(b"".join(pieces), meta=meta)
    if decoded is None:
        return Counted("malformed", "charset", size)
    return decoded[0], decoded[1] | flags, size
