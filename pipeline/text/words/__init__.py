"""Word segmenters for texts without blanks, one algorithm per file.

Their packages are optional; the extra `words` installs all of them.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, ClassVar, Final

from clozeline.configuration.config import NoOptions
from clozeline.errors import ConfigurationError

_LONGEST_PIECE: Final = 1000
"""Maximum characters per call of a segmenter, and between two words that a document lists, so that
the time is linear in the text."""
_PIECE: Final = re.compile(r"(?s).{1,1000}\Z|.{501,999}[\s。！？，、；：.!?,;:]|.{1000}")


class Segmenter(ABC):
    """Base class of segmenters; a subclass splits a piece of text into words."""

    VERSION: ClassVar[int]
    """raised when the same text gives other words, also with another version of its package"""
    languages: ClassVar[tuple[str, ...]]
    """ISO 639 codes of the supported languages; empty: every language"""
    packages: ClassVar[tuple[str, ...]] = ()
    """packages to import, the one of the segmenter first"""
    Options: ClassVar[Any] = NoOptions

    def __init__(self, options: Any) -> None:
        """Import the packages; raise ConfigurationError with the install command if missing."""
        self.options = options
        try:
            for package in self.packages:
                import_module(package)
        except ImportError as error:
            raise ConfigurationError(
                f"encode.words {self.packages[0]}: needs a package ({error}): pip install "
                "'clozeline[words]'"
            ) from error

    @abstractmethod
    def split(self, piece: str) -> Iterable[str]:
        """Return the words of a piece of text in order; white space may be omitted."""

    def starts(self, text: str, fields: Mapping[str, Any]) -> list[int]:
        """Return the offset of the first character of each word, ascending, without white space.

        A word that the text does not have at that point is skipped: its characters belong to the
        previous word. `fields` are other fields of the document. If there is no word, the words of
        the tokenizer are used.
        """
        return [
            first + start
            for first, piece in _iter_pieces(text)
            for start in find_starts(piece, map(str.strip, self.split(piece)))
        ]


def find_starts(text: str, words: Iterable[str]) -> Iterator[int]:
    """Yield where the words of a text start, one after another; skip those that are not there."""
    position = 0
    for word in words:
        limit = position + _LONGEST_PIECE + len(word)
        start = text.find(word, position, limit) if word else -1
        if start >= 0:
            yield start
            position = start + len(word)


def _iter_pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text with their offsets; long lines are split behind a mark."""
    first = 0
    for line in text.splitlines(keepends=True):
        for piece in _PIECE.finditer(line):
            yield first + piece.start(), piece[0]
        first += len(line)
