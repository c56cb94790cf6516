"""Main-content extraction by trafilatura (Barbaresi, ACL 2021; https://trafilatura.readthedocs.io). Needs its extra."""

import logging
from importlib.util import find_spec
from typing import Annotated, ClassVar

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.clean.extractors import ExtractorOptions
from clozeline.pipeline.clean.extractors._nesting_depth import refuse_deep_pages


class Trafilatura:
    """Plain text of a page with paragraphs, lists and tables, without comments, link targets and image texts."""

    VERSION: ClassVar[int] = 1
    reasons: ClassVar[tuple[str, ...]] = ("html_depth",)

    @config_class
    class Options(ExtractorOptions):
        fast: bool = True
        """skip the comparison with other extractors: about 1.5 times the speed at equal scores"""
        max_depth: Annotated[int, Field(ge=1, le=5000)] = 5000
        """maximum nesting depth of elements, 1 to 5,000; deeper pages are rejected as `html_depth`"""

        def __post_init__(self) -> None:
            if find_spec("trafilatura") is None:
                raise ValueError("the library is missing; install the extra: pip install 'clozeline[trafilatura]'")

    def __init__(self, options: Options) -> None:
        from trafilatura import extract

        self._options, self._extract = options, extract
        logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # it writes a line for each page without text

    def extract(self, html: str) -> str:
        refuse_deep_pages(html, self._options.max_depth)
        # its deduplication depends on the pages read before, in this process
        text = self._extract(html, fast=self._options.fast, deduplicate=False, include_comments=False)
        return text or ""

    def extract_leniently(self, html: str) -> str:
        """Return nothing: the library has tried its lenient rules."""
        return ""
