"""Extract texts of pages with an extractor of datatrove, or of a user who wrote one for it."""

from typing import Any, ClassVar

from clozeline.configuration.config import config_class
from clozeline.pipeline.clean.extractors import Extractor, ExtractorOptions
from clozeline.pipeline.ingest.datatrove_blocks import BlockOptions, build_block


class DatatroveExtractor(Extractor):
    """Extracts what an extractor of datatrove finds in a page.

    It runs in the process of all extractors, whose limits hold: `timeout_s` replaces the option
    `timeout` of the block.
    """

    VERSION: ClassVar[int] = 1

    @config_class
    class Options(BlockOptions, ExtractorOptions):
        """The extractor, its arguments, and limits per page."""

    def __init__(self, options: Options) -> None:
        base = "datatrove.pipeline.extractors.base:BaseExtractor"
        self._step = build_block(options, base, _answer)

    def extract(self, html: str) -> str:
        return self._step.extract(html) or ""

    def extract_leniently(self, html: str) -> str:
        """Return nothing, because a block has one set of rules."""
        return ""


def _answer(step: Any, text: str) -> object:
    """Return what an extractor finds in a page with a text, for the search for state."""
    paragraphs = "".join(f"<p>{line}</p>" for line in text.splitlines())
    page = f"<html><body><article><h1>A page</h1>{paragraphs}</article></body></html>"
    return step.extract(page)
