"""Files that are one document each: decompressed within bounds, decoded, never cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final

from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.pipeline.ingest.documents.document import FLAG_TRUNCATED_SOURCE
from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.charset import decode
from clozeline.pipeline.ingest.formats.decompression import REASONS, Damage, decompress_file
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import Counted, Item, OneRange, RawRecord

_REASONS: Final = (*REASONS, "charset", "too_large")


class WholeFile(OneRange):
    """A reader whose one record is the file. A subclass says what the file holds."""

    kind: ClassVar[str]
    """kind of the locator, part of the document uid"""
    markup: ClassVar[bool]
    """true for HTML, whose `<meta>` may name the encoding"""
    reasons: ClassVar[tuple[str, ...]] = _REASONS

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """None."""

    def __init__(self, options: Options, limits: Limits) -> None:
        self._limits = limits

    def read(self, path: Path, start: int, end: int, account: Account) -> Iterator[Item]:
        """Yield the one record, or the reason why the file has none."""
        account.records += 1
        found = _content(path, self._limits, account)
        if isinstance(found, Counted):
            yield found
            return
        content, flags = found
        decoded = decode(content, meta=self.markup)
        if decoded is None:
            yield Counted("malformed", "charset", len(content))
            return
        text, size = decoded[0], path.stat().st_size
        flags |= decoded[1]
        yield RawRecord(0, self.kind, size, text, markup=self.markup, flags=flags, span=len(content))


def _content(path: Path, limits: Limits, account: Account) -> tuple[bytes, int] | Counted:
    """Return the decompressed content and flags; the readable part of a file that is cut or ends in junk is flagged."""
    flags, pieces, length = 0, [], 0
    for piece in decompress_file(path, limits, account, resume=False):
        if isinstance(piece, Damage):
            # Before junk all members are whole, and before a cut what is there is right.
            if piece.reason not in ("truncated", "trailing_junk") or not length:
                return Counted("malformed", piece.reason, length)
            flags = FLAG_TRUNCATED_SOURCE
            continue
        pieces.append(piece)
        length += len(piece)
        if length > limits.record_bytes:
            account.pass_over("too_large", path.stat().st_size - account.decoded)
            return Counted("malformed", "too_large", length)
    return b"".join(pieces), flags
