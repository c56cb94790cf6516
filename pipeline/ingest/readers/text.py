"""Read text files: each file is a document."""

from collections.abc import Iterator
from typing import ClassVar

from clozeline.pipeline.ingest.documents.document import FLAG_TRUNCATED_SOURCE
from clozeline.pipeline.ingest.formats.charset import decode
from clozeline.pipeline.ingest.formats.decompression import (
    DAMAGE_REASONS,
    Damage,
    InputFile,
    decompress_file,
)
from clozeline.pipeline.ingest.readers import Item, RawRecord, Reader, SkippedRecord


class WholeFileReader(Reader):
    """Base class of readers whose only record is the file; a subclass names its type."""

    locator_type: ClassVar[str]
    """unit of the locator, part of the document uid"""
    is_markup: ClassVar[bool]
    """true for HTML, whose `<meta>` may name the encoding"""
    reasons: ClassVar[tuple[str, ...]] = (*DAMAGE_REASONS, "charset", "too_large")

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        flags = 0
        pieces = []
        length = 0
        size = path.stat().st_size

        for piece in decompress_file(path, self._limits, resume=False):
            if isinstance(piece, Damage):
                # all content before a cut or before trailing junk is valid
                if piece.reason not in ("truncated", "trailing_junk") or not length:
                    yield SkippedRecord.from_damage(piece)
                    return
                flags = FLAG_TRUNCATED_SOURCE
                continue
            pieces.append(piece)
            length += len(piece)
            if length > self._limits.record_bytes:
                yield SkippedRecord("malformed", "too_large")
                return

        decoded = decode(b"".join(pieces), meta=self.is_markup)
        if decoded is None:
            yield SkippedRecord("malformed", "charset")
            return

        text, decoding_flags = decoded
        flags |= decoding_flags
        yield RawRecord(0, self.locator_type, size, text, is_markup=self.is_markup, flags=flags)


class TextReader(WholeFileReader):
    """Reads a file, compressed or not, and detects its encoding."""

    VERSION = 2
    suffixes = (".txt", ".text", ".md", ".rst")
    locator_type = "text"
    is_markup = False
