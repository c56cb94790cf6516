"""Main-content extraction by Resiliparse (Bevendorff et al., ECIR 2018; https://resiliparse.chatnoir.eu)."""

import re
from typing import Annotated, ClassVar, Final

import numpy as np
from pydantic import Field
from resiliparse.extract.html2text import extract_plain_text

from clozeline.configuration.config import config_class
from clozeline.pipeline.clean.extractors import ExtractorOptions, PageRefused

_TAG: Final = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)[^<>]*")
# void elements, and elements with an optional end tag: parsers do not nest them in themselves
_FLAT: Final = frozenset(
    {
        "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
        "p", "li", "dt", "dd", "td", "th", "tr", "thead", "tbody", "tfoot", "option", "optgroup", "colgroup", "rp",
        "rt", "html", "head", "body",
    }
)  # fmt: skip

_UNSEEN: Final = re.compile(r"<(noscript|script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_LINE: Final = 60  # characters; shorter lines of a page are mostly menus and headings
_PROSE: Final = 500  # minimum characters in long lines of a page that has a text


class Resiliparse:
    r"""Plain text of a page with paragraphs and lists, without link targets and image texts.

    If no main content is found, `extract_leniently` drops the invisible elements that mislead the parser, or else takes
    the long lines of the page. Deep pages are rejected unparsed: parsing is quadratic in the nesting depth.

        "<nav>Home</nav><h1>Title</h1><p>One <b>two</b>.</p>" -> "Title\n\nOne two."
    """

    VERSION: ClassVar[int] = 2
    reasons: ClassVar[tuple[str, ...]] = ("html_depth",)

    @config_class
    class Options(ExtractorOptions):
        main_content: bool = True
        """drop navigation, headers, footers and the like"""
        max_depth: Annotated[int, Field(ge=1, le=5000)] = 5000
        """maximum nesting depth of elements, 1 to 5,000; deeper pages are rejected as `html_depth`"""

    def __init__(self, options: Options) -> None:
        self._options = options

    def extract(self, html: str) -> str:
        # the nesting may be deeper than the limit; unclosed formatting elements count as nested
        if html.count("<") > self._options.max_depth:
            steps = [-1 if closes else 1 for closes, name in _TAG.findall(html) if name.lower() not in _FLAT]
            depth = np.cumsum(np.array(steps, dtype=np.int64))
            # measure from the lowest point so far, because end tags without a start tag do not reduce the depth
            lowest = np.minimum.accumulate(np.minimum(depth, 0))
            if int((depth - lowest).max(initial=0)) > self._options.max_depth:
                raise PageRefused("html_depth")
        return _parse(html, self._options.main_content)

    def extract_leniently(self, html: str) -> str:
        """Return the main content without scripts, or else the long lines of the page if there are enough."""
        bare = _UNSEEN.sub(" ", html)
        text = _parse(bare, self._options.main_content)
        if text.strip() or not self._options.main_content:
            return text
        lines = map(str.strip, _parse(bare, False).split("\n"))
        prose = "\n\n".join(dict.fromkeys(line for line in lines if len(line) >= _LINE and not line.startswith("•")))
        return prose if len(prose) >= _PROSE else ""


def _parse(html: str, main_content: bool) -> str:
    return str(
        extract_plain_text(html, preserve_formatting=True, main_content=main_content, alt_texts=False, links=False)
    )
