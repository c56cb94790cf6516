"""Extractors: get the readable text out of HTML, in a child process (`_extraction.py`)."""

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar

from pydantic import Field

from clozeline.configuration.config import config_class


@config_class
class ExtractorOptions:
    """Limits per page, for every extractor."""

    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 5.0
    """CPU seconds per page, > 0; pages that need more are rejected as `timeout`"""
    memory_bytes: Annotated[int, Field(ge=1 << 28)] = 1 << 31
    """address space of the extractor's process in bytes, ≥ 256 MiB; pages that need more are
    rejected as `extractor_crash`, or `extractor_error` where the parser reports it"""


class Extractor(ABC):
    """An extractor."""

    VERSION: ClassVar[int]

    @abstractmethod
    def extract(self, html: str) -> str:
        """Return the text, empty if the page has none."""

    @abstractmethod
    def extract_leniently(self, html: str) -> str:
        """Return the text by less strict rules, for a page in which `extract` finds none; empty if there is none."""
