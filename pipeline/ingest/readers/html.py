"""Read HTML files: each file is a page."""

from typing import ClassVar

from clozeline.pipeline.ingest.readers.text import WholeFileReader


class HtmlReader(WholeFileReader):
    """Reads a page, compressed or not; its `<meta>` may name the encoding."""

    VERSION: ClassVar[int] = 2
    suffixes: ClassVar[tuple[str, ...]] = (".html", ".htm", ".xhtml")
    locator_type: ClassVar[str] = "html"
    is_markup: ClassVar[bool] = True
