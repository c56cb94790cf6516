"""Sentence splitters, one algorithm per file: each returns the character offsets at which sentences start."""

from abc import ABC, abstractmethod
from typing import ClassVar


class SentenceSplitter(ABC):
    """A sentence splitter."""

    VERSION: ClassVar[int]
    """raised when sentences of the same text start elsewhere"""

    @abstractmethod
    def starts(self, text: str, language: str) -> list[int]:
        """Return the character offset of each sentence: first 0, strictly increasing, each below `len(text)`.

        White space between two sentences belongs to the first, so the slices join to the text. The
        empty text has no sentence. `language` is an ISO 639 code; `und` where unknown.
        """
