"""Segmenters, one algorithm per file: each finds the words of texts that are written without blanks.

Their packages are optional: the extra `words` has all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

from clozeline.configuration.config import NoOptions
from clozeline.errors import ConfigurationError

_LONGEST_PIECE: Final = 1000
"""Characters that a segmenter gets at once, so that its time grows with the text and no faster."""


class Segmenter(ABC):
    """Base of segmenters; a subclass splits a piece of text into words."""

    VERSION: ClassVar[int]
    """raised when the same text has other words, also by another version of its package"""
    languages: ClassVar[tuple[str, ...]]
    """ISO 639 codes of the languages that it knows; empty: every language"""
    Options: ClassVar[Any] = NoOptions

    def __init__(self, options: Any) -> None:
        """Import its package; ConfigurationError with the command that installs it where it is missing."""
        self.options = options

    @abstractmethod
    def split(self, piece: str) -> Iterable[str]:
        """Return the words of a piece of text in order; white space between them may be left out."""

    def starts(self, text: str, fields: Mapping[str, Any]) -> list[int]:
        """Return the offset of each word's first character, ascending; words of white space are none.

        A word that the text does not have at that point is passed over: its characters belong to
        the word before. `fields` are further fields of the document. Without any word, the
        tokenizer's are taken.
        """
        starts = []
        for first, piece in _iter_pieces(text):
            position = 0
            for word in self.split(piece):
                visible = word.strip()
                found = piece.find(visible, position) if visible else -1
                if found >= 0:
                    starts.append(first + found)
                    position = found + len(visible)
        return starts


def missing_package_error(name: str, error: ImportError) -> ConfigurationError:
    """Return the error of a segmenter whose package is missing."""
    return ConfigurationError(
        f"encode.words {name}: needs its package ({error}): pip install 'clozeline[words]'"
    )


def _iter_pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text and where they start; those that are too long in pieces that end with a mark."""
    first = 0
    for line in text.splitlines(keepends=True):
        end = first + len(line)
        while end - first > _LONGEST_PIECE:
            cut = _last_mark(text, first, first + _LONGEST_PIECE)
            yield first, text[first:cut]
            first = cut
        yield first, text[first:end]
        first = end


def _last_mark(text: str, first: int, limit: int) -> int:
    """Return the position behind the last character that is no letter or digit; the limit if there is none."""
    for position in range(limit - 1, first + _LONGEST_PIECE // 2, -1):
        if text[position].isspace() or text[position] in "。！？，、；：.!?,;:":
            return position + 1
    return limit
