"""Sentence splitters, one algorithm per file.

Each returns the character offsets at which sentences start.
"""

from abc import ABC, abstractmethod
from typing import ClassVar


class SentenceSplitter(ABC):
    """Base class of sentence splitters."""

    VERSION: ClassVar[int]
    """raised when sentences of the same text start elsewhere"""

    @abstractmethod
    def starts(self, text: str, language: str) -> list[int]:
        """Return the character offset of each sentence: 0 first, ascending, below `len(text)`.

        White space between two sentences belongs to the first one, so the slices join to the text.
        An empty text has no sentence. `language` is an ISO 639 code, or `und` if unknown.
        """

    def splits_phrases(self, language: str) -> bool:
        """Return whether texts of a language are split into phrases, for lack of sentence marks."""
        return False
