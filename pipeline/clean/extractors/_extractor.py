"""The base of extractors: what a page may cost, and the reasons why one is not parsed."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Protocol

from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ExtractorOptions:
    """Limits of one page, for every extractor."""

    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 5.0
    """processor seconds for a page, > 0; pages that need more are rejected as `timeout`"""
    memory_bytes: Annotated[int, Field(ge=1 << 28)] = 1 << 31
    """address space of the extractor's process in bytes, ≥ 256 MiB; pages that need more: `extractor_crash`"""


class Refused(Exception):
    """The page must not be parsed; `reason` becomes the reason of its rejection."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Extractor(Protocol):
    """The interface of extractors."""

    VERSION: ClassVar[int]
    reasons: ClassVar[tuple[str, ...]]
    """reasons of `Refused`"""

    def __init__(self, options: Any) -> None: ...

    def extract(self, html: str) -> str:
        """Return the text, empty where the page has none."""

    def extract_again(self, html: str) -> str:
        """Return the text of a page in which `extract` finds none, by rules that are less strict; empty without one."""
