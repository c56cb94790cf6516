"""Extract texts of pages with an extractor of datatrove, or of a user who wrote one for it."""

from typing import Any

from resiliparse.parse.html import HTMLTree

from clozeline.configuration.config import config_class
from clozeline.extensions.datatrove.blocks import BlockOptions, build_block
from clozeline.pipeline.clean.extractors import Extractor, ExtractorOptions


class DatatroveExtractor(Extractor):
    """Extracts what an extractor of datatrove finds in a page.

    It runs in the process of all extractors, whose limits hold: `timeout_s` replaces the option
    `timeout` of the block.
    """

    VERSION = 2

    @config_class
    class Options(BlockOptions, ExtractorOptions):
        """The extractor, its arguments, and limits per page."""

    def __init__(self, options: Options) -> None:
        base = "datatrove.pipeline.extractors.base:BaseExtractor"
        self._step = build_block(options, base, _answer)

    def extract(self, page: HTMLTree) -> str:
        return self._step.extract(str(page)) or ""


def _answer(step: Any, text: str) -> object:
    """Return what an extractor finds in a page with a text, for the search for state."""
    paragraphs = "".join(f"<p>{line}</p>" for line in text.splitlines())
    page = f"<html><body><article><h1>A page</h1>{paragraphs}</article></body></html>"
    return step.extract(page)
