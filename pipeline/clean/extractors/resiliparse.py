"""Main-content extraction by Resiliparse (Bevendorff et al., ECIR 2018).

https://resiliparse.chatnoir.eu
"""

import re
from typing import Any, Final

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from clozeline.configuration.config import config_class
from clozeline.pipeline.clean.extractors import Extractor, ExtractorOptions
from clozeline.pipeline.clean.extractors._preparation import prepare_page

_INVISIBLE_ELEMENTS: Final = re.compile(
    r"<(noscript|script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL
)
_SHALLOW_LISTS: Final = "body > p ~ ul, body > * > p ~ ul, body > * > * > p ~ ul"
"""Lists that the library takes for menus: at a depth below `_DEPTH`."""
_DEPTH: Final = 3
_LONG_LINE: Final = 60
"""Characters of a long line; shorter lines of a page are mostly menus and headings."""
_FEWEST_CHARACTERS: Final = 500
"""Minimum characters in long lines of a page with a text."""


class ResiliparseExtractor(Extractor):
    r"""Extracts the text of a page with paragraphs and lists, without link targets and image texts.

    If there is no main content, `extract_leniently` removes invisible elements, which mislead the
    parser, or else takes the long lines of the page.

        "<nav>Home</nav><h1>Title</h1><p>One <b>two</b>.</p>" -> "Title\n\nOne two."
    """

    VERSION = 4

    @config_class
    class Options(ExtractorOptions):
        main_content: bool = True
        """drop navigation, headers, footers and the like"""

    def __init__(self, options: Options) -> None:
        self._options = options

    def extract(self, page: HTMLTree) -> str:
        return _parse(page, self._options.main_content)

    def extract_leniently(self, html: str) -> str:
        """Return the main content without scripts, or else the long lines if there are enough."""
        visible = prepare_page(_INVISIBLE_ELEMENTS.sub(" ", html))
        text = _parse(visible, self._options.main_content)
        if text.strip() or not self._options.main_content:
            return text
        lines = map(str.strip, _parse(visible, False).split("\n"))
        prose = "\n\n".join(
            dict.fromkeys(
                line for line in lines if len(line) >= _LONG_LINE and not line.startswith("•")
            )
        )
        return prose if len(prose) >= _FEWEST_CHARACTERS else ""


def _parse(page: Any, main_content: bool) -> str:
    for node in page.body.query_selector_all(_SHALLOW_LISTS).values():
        links = sum(len(link.text) for link in node.query_selector_all("a").values())
        if 2 * links < len(node.text):
            for _ in range(_DEPTH):
                frame = page.create_element("div")
                node.parent.replace_child(frame, node)
                frame.append_child(node)

    return str(
        extract_plain_text(
            page, preserve_formatting=True, main_content=main_content, alt_texts=False, links=False
        )
    )
