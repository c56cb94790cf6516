"""Extractors: HTML to the text that a person would read. They run in a child process; see pipeline/extraction.py."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

__all__ = ["Extractor", "Refused"]


class Refused(Exception):
    """The page must not be parsed; `reason` becomes the reason of its rejection."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Extractor(Protocol):
    """What every file of this folder holds."""

    VERSION: ClassVar[int]
    reasons: ClassVar[tuple[str, ...]]
    """reasons of `Refused`"""

    def __init__(self, options: Any) -> None: ...

    def extract(self, html: str) -> str:
        """The text, empty where there is none."""
