"""Extractors: get the readable text of HTML, in a child process (`_extraction.py`)."""

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar

from pydantic import Field
from resiliparse.parse.html import HTMLTree

from clozeline.configuration.config import config_class


@config_class
class ExtractorOptions:
    """Limits per page, for every extractor."""

    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 5.0
    """CPU seconds per page, > 0; slower pages are rejected as `timeout`"""
    memory_bytes: Annotated[int, Field(ge=1 << 28)] = 1 << 31
    """address space of the extractor's process in bytes, ≥ 256 MiB; pages that need more are
    rejected as `extractor_crash`, or as `extractor_error` if the parser reports it"""


class Extractor(ABC):
    """Base class of extractors."""

    VERSION: ClassVar[int]

    @abstractmethod
    def extract(self, page: HTMLTree) -> str:
        """Return the text of a prepared page; empty if it has none. `str(page)` is its HTML."""

    def extract_leniently(self, html: str) -> str:
        """Return the text of a page as read, by less strict rules, if `extract` finds none."""
        return ""
