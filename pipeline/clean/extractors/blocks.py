"""Main-content extraction by a linear model over the text blocks of a page, on lexbor (https://lexbor.com)."""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.clean.extractors import ExtractorOptions, PageRefused
from clozeline.pipeline.clean.extractors._block_features import measure_blocks
from clozeline.pipeline.clean.extractors._block_model import Weights, choose_blocks, load_weights
from clozeline.pipeline.clean.extractors._block_rendering import find_title, render
from clozeline.pipeline.clean.extractors._nesting_depth import refuse_deep_pages
from clozeline.pipeline.clean.extractors._page_walk import read_page


class Blocks:
    r"""Main text of a page: each block of text is kept or dropped by a logistic model, smoothed over the page's tree.

    The model reads the block's text, the names of the elements around it, how much prose these hold, and the blocks
    before and after (in the line of boilerpipe, Kohlschütter et al., WSDM 2010, and Web2Text, arXiv 1801.02607). Lists,
    table rows, preformatted text and formulas (as TeX) keep their form. `docs/pipeline.md` has its scores.

        "<nav><a href=/>Home</a></nav><h1>Title</h1><p>One <b>two</b>.</p>" -> "Title\n\nOne two."
    """

    VERSION: ClassVar[int] = 2
    reasons: ClassVar[tuple[str, ...]] = ("html_depth", "no_main_text")

    @config_class
    class Options(ExtractorOptions):
        title: bool = True
        """begin with the `h1` before the main text, also if the model drops it"""
        empty: Literal["reject", "all"] = "reject"
        """a page without main text, such as a menu: reject it as `no_main_text`, or keep all its text"""
        max_depth: Annotated[int, Field(ge=1, le=5000)] = 5000
        """maximum nesting depth of elements, 1 to 5,000; deeper pages are rejected as `html_depth`"""

    def __init__(self, options: Options, weights: Weights | None = None) -> None:
        self._options = options
        self._weights = weights or load_weights(self.VERSION)

    def extract(self, html: str) -> str:
        refuse_deep_pages(html, self._options.max_depth)
        page = read_page(html)
        if not page.texts:
            return ""
        kept = choose_blocks(page, measure_blocks(page), self._weights)
        if not kept.any():
            if self._options.empty == "reject":
                raise PageRefused("no_main_text")
            kept = np.ones(len(page.texts), np.bool_)
        if self._options.title and (title := find_title(page, kept)) is not None:
            kept[title] = True
        return render(page, kept)

    def extract_leniently(self, html: str) -> str:
        """Return nothing: a page without any text has none by other rules either."""
        return ""
