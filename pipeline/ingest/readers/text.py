"""Read plain text: the file is the document, or each of its chapters."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, ClassVar

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.ingest.documents.document import FLAG_TRUNCATED_SOURCE
from clozeline.pipeline.ingest.formats.charset import decode
from clozeline.pipeline.ingest.formats.decompression import REASONS, Damage, InputFile, decompress_file
from clozeline.pipeline.ingest.readers import Counted, Item, RawRecord, Reader


@config_class
class Split:
    """Split of a book at its chapters."""

    pattern: str
    """regular expression of the beginning of a chapter; `^` is that of a line: `^CHAPTER [IVX]+`"""
    min_words: Annotated[int, Field(ge=0)] = 0
    """shorter chapters, such as title pages, are joined to the next one"""

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"pattern: expected a regular expression, got {self.pattern!r}: {error}") from error


class WholeFile(Reader):
    """A reader whose only record is the file; a subclass names its type."""

    kind: ClassVar[str]
    """type of the locator, part of the document uid"""
    markup: ClassVar[bool]
    """true for HTML, whose `<meta>` may name the encoding"""
    reasons: ClassVar[tuple[str, ...]] = (*REASONS, "charset", "too_large")

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        flags, pieces, length, size = 0, [], 0, path.stat().st_size
        for piece in decompress_file(path, self._limits, resume=False):
            if isinstance(piece, Damage):
                # all content before a cut or before trailing junk is valid
                if piece.reason not in ("truncated", "trailing_junk") or not length:
                    yield Counted("malformed", piece.reason)
                    return
                flags = FLAG_TRUNCATED_SOURCE
                continue
            pieces.append(piece)
            length += len(piece)
            if length > self._limits.record_bytes:
                yield Counted("malformed", "too_large")
                return
        decoded = decode(b"".join(pieces), meta=self.markup)
        if decoded is None:
            yield Counted("malformed", "charset")
            return
        text, decoding_flags = decoded
        flags |= decoding_flags
        yield RawRecord(0, self.kind, size, text, markup=self.markup, flags=flags)


class Text(WholeFile):
    """Reads a file, compressed or not, in the encoding that fits. A book can be split at its chapters."""

    VERSION: ClassVar[int] = 2
    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".text", ".md", ".rst")
    kind: ClassVar[str] = "text"
    markup: ClassVar[bool] = False

    @config_class
    class Options:
        """Options of plain text."""

        split: Split | None = None
        """chapters of a book as documents of their own: `{pattern: "^CHAPTER ", min_words: 50}`"""

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        """Yield the document, or its chapters: their locator is the offset in the text as UTF-8."""
        for item in super().read(path, start, end):
            if not isinstance(item, RawRecord) or self._options.split is None:
                yield item
                continue
            yield from _split_chapters(item, self._options.split)


def _split_chapters(book: RawRecord, split: Split) -> Iterator[RawRecord]:
    """Yield the chapters of a text, each with its bytes as UTF-8."""
    matches = re.finditer(split.pattern, book.text, re.MULTILINE)
    edges = [0, *(match.start() for match in matches if match.group() and match.start()), len(book.text)]
    pieces, short = [], ""
    for begin, end in pairwise(edges):
        short += book.text[begin:end]
        if len(short.split()) >= max(1, split.min_words):
            pieces.append(short)
            short = ""
    # a short rest belongs to the last chapter
    pieces = [*pieces[:-1], pieces[-1] + short] if pieces else [short]
    offset = 0
    for piece in pieces:
        size = len(piece.encode("utf-8", "surrogatepass"))
        yield book._replace(locator=offset, kind="chapter", length=size, text=piece)
        offset += size
