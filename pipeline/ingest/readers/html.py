"""Read HTML files: the file is the page."""

from typing import ClassVar

from clozeline.pipeline.ingest.readers.text import WholeFile


class Html(WholeFile):
    """Reads a page, compressed or not; its `<meta>` may name the encoding."""

    VERSION: ClassVar[int] = 2
    suffixes: ClassVar[tuple[str, ...]] = (".html", ".htm", ".xhtml")
    kind: ClassVar[str] = "html"
    markup: ClassVar[bool] = True
