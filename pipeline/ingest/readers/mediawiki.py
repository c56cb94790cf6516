"""Read dumps of MediaWiki, plain or compressed: a page of the main namespace is a document."""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final
from xml.parsers import expat

from clozeline.pipeline.ingest.formats.decompression import REASONS, Damage, InputFile, decompress_file
from clozeline.pipeline.ingest.formats.wikitext import ENGLISH_NAMESPACES, strip_markup
from clozeline.pipeline.ingest.readers import Counted, Item, RawRecord, Reader

_PIECE: Final = 1 << 20  # bytes of XML at a time
_FILES_AND_CATEGORIES: Final = frozenset({"6", "14"})
"""Keys of the namespaces whose links are no text; their names depend on the language of the wiki."""
_REDIRECT: Final = re.compile(r"\s*#redirect\s*:?\s*\[\[", re.IGNORECASE)


class Mediawiki(Reader):
    """Reads the last revision of each article; redirects and pages of other namespaces are counted as ignored.

    Headings, paragraphs, lists, code and formulas (as TeX) stay; templates, tables, references, files and categories
    go. A dump that is cut ends with the last complete page. Name it in the recipe: `reader: mediawiki`. It needs
    `clozeline[mediawiki]`.
    """

    VERSION: ClassVar[int] = 2
    reasons: ClassVar[tuple[str, ...]] = (*REASONS, "bad_xml", "too_large")

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        pages = _Pages(self._limits.record_bytes)
        reason = ""
        for piece in decompress_file(path, self._limits, resume=False):
            if isinstance(piece, Damage):
                reason = piece.reason
                break
            for first in range(0, len(piece), _PIECE):
                yield from pages.feed(piece[first : first + _PIECE])
        if not reason and not pages.finish():
            reason = "truncated" if not pages.wrong else "bad_xml"
        if reason or pages.wrong:
            yield Counted("malformed", "bad_xml" if pages.wrong else reason, pages.end, detail=pages.wrong)


class _Pages:
    """An incremental parser: it takes XML in pieces and gives the pages that are complete."""

    def __init__(self, longest: int) -> None:
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._open
        self._parser.EndElementHandler = self._close
        self._parser.CharacterDataHandler = self._add
        self._parser.EntityDeclHandler = self._refuse
        self._parser.buffer_text = True
        self._longest = longest
        self._items: list[Item] = []
        self._text: list[str] | None = None
        self._fields: dict[str, str] = {}
        self._size = self._start = self.end = 0
        self._no_text = set(ENGLISH_NAMESPACES)
        self._key = ""
        self.wrong = ""

    def feed(self, piece: bytes) -> list[Item]:
        """Parse a piece; return the pages that end in it. After an error in the XML nothing more is parsed."""
        self._items = []
        if not self.wrong:
            try:
                self._parser.Parse(piece, False)
            except (expat.ExpatError, ValueError) as error:
                self.wrong = str(error)
        return self._items

    def finish(self) -> bool:
        """Return whether the XML is complete."""
        try:
            self._parser.Parse(b"", True)
        except (expat.ExpatError, ValueError):
            return False
        return not self.wrong

    def _refuse(self, *_: Any) -> None:
        raise ValueError("declares an entity, which no dump does")

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        self._text = None
        if name == "page":
            self._start, self._fields = self._parser.CurrentByteIndex, {}
        elif name == "namespace":
            self._key, self._text = attributes.get("key", ""), []
        elif name == "redirect":
            self._fields["redirect"] = "yes"
        elif name in ("title", "ns", "text"):
            self._text, self._size = [], 0  # of several revisions, the last text stays

    def _add(self, text: str) -> None:
        if self._text is not None:
            self._size += len(text)
            if self._size <= self._longest:
                self._text.append(text)

    def _close(self, name: str) -> None:
        if name == "page":
            self._end_page(self._parser.CurrentByteIndex + len("</page>"))
        elif self._text is not None:
            value = "".join(self._text)
            if name == "namespace" and self._key in _FILES_AND_CATEGORIES:
                self._no_text.add(value.casefold())
            if name == "text" and self._size > self._longest:
                self._fields["too_large"] = "yes"
            self._fields[name] = value
        self._text = None

    def _end_page(self, end: int) -> None:
        length, page = end - self._start, self._fields
        self.end = end
        if "redirect" in page or _REDIRECT.match(page.get("text", "")):
            self._items.append(Counted("ignored", "redirect"))
        elif page.get("ns", "0") != "0":
            self._items.append(Counted("ignored", f"namespace_{page['ns']}"))
        elif "too_large" in page:
            self._items.append(Counted("malformed", "too_large", self._start))
        else:
            text = strip_markup(page.get("text", ""), frozenset(self._no_text))
            extra = {"title": page.get("title", "")}
            self._items.append(RawRecord(self._start, "mediawiki", length, text, extra=extra))
