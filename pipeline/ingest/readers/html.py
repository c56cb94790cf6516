"""Read HTML files: each file is a page."""

from clozeline.pipeline.ingest.readers.text import WholeFileReader


class HtmlReader(WholeFileReader):
    """Reads a page, compressed or not; its `<meta>` may name the encoding."""

    VERSION = 2
    suffixes = (".html", ".htm", ".xhtml")
    start = rb"(?i)(\xef\xbb\xbf)?\s*<(!doctype |)html"
    locator_type = "html"
    is_markup = True
