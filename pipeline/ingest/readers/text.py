"""Read text files: each file is a document, or each chapter of it."""

from collections.abc import Iterator
from itertools import pairwise
from typing import ClassVar

from clozeline.configuration.config import Natural, config_class
from clozeline.patterns import compile_pattern, use_pattern
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

    reads_whole_files = True
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
                yield SkippedRecord("malformed", "too_large", detail="above limits.record_bytes")
                return

        decoded = decode(b"".join(pieces), meta=self.is_markup)
        if decoded is None:
            yield SkippedRecord("malformed", "charset", detail="it is no text in a known encoding")
            return

        text, decoding_flags = decoded
        flags |= decoding_flags
        yield RawRecord(0, self.locator_type, size, text, is_markup=self.is_markup, flags=flags)


@config_class
class ChapterSplit:
    """Splits a book at its chapters."""

    pattern: str
    """regular expression that matches the start of a chapter; `^` matches the start of a line:
    `^CHAPTER [IVX]+`"""
    min_words: Natural = 0
    """shorter chapters, such as title pages, are joined to the next one"""

    def __post_init__(self) -> None:
        try:
            compile_pattern(self.pattern)
        except ValueError as error:
            raise ValueError(f"pattern: {error}") from error

    def iter_chapters(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield the chapters of a text, each after its offset in the text as UTF-8."""
        # cut before each match; an empty match or one at the start of the text cuts nothing
        with use_pattern("input.split.pattern", self.pattern, len(text)) as pattern:
            starts = [match.start() for match in pattern.finditer(text) if match[0]]
        edges = [0, *filter(None, starts), len(text)]

        # join pieces that are too short to the next one
        pieces = []
        short = ""

        for start, end in pairwise(edges):
            short += text[start:end]
            if len(short.split()) >= max(1, self.min_words):
                pieces.append(short)
                short = ""
        # a short last piece belongs to the chapter before it
        pieces = [*pieces[:-1], pieces[-1] + short] if pieces else [short]

        offset = 0
        for piece in pieces:
            yield offset, piece
            offset += len(piece.encode("utf-8", "surrogatepass"))


class TextReader(WholeFileReader):
    """Reads a file, compressed or not, and detects its encoding."""

    @config_class
    class Options:
        """Where a file is split."""

        split: ChapterSplit | None = None
        """split books into chapters, each a document: `{pattern: "^CHAPTER ", min_words: 50}`"""

    VERSION = 2
    suffixes = (".txt", ".text", ".md", ".rst")
    locator_type = "text"
    is_markup = False

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        split = self._options.split
        for item in super().read(path, start, end):
            if split is None or not isinstance(item, RawRecord):
                yield item
                continue
            for offset, text in split.iter_chapters(item.text):
                size = len(text.encode("utf-8", "surrogatepass"))
                yield item._replace(locator=offset, locator_type="chapter", length=size, text=text)
