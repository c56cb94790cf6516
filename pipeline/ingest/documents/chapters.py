"""Split books at their chapters, each of which becomes a document."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated

from pydantic import Field

from clozeline.configuration.config import config_class


@config_class
class ChapterSplit:
    """Splits a book at its chapters."""

    pattern: str
    """regular expression that matches the start of a chapter; `^` matches the start of a line:
    `^CHAPTER [IVX]+`"""
    min_words: Annotated[int, Field(ge=0)] = 0
    """shorter chapters, such as title pages, are joined to the next one"""

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ValueError(
                f"pattern: expected a regular expression, got {self.pattern!r}: {error}"
            ) from error

    def iter_chapters(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield the chapters of a text, each after its offset in the text as UTF-8."""
        # cut before each match; an empty match or one at the start of the text cuts nothing
        matches = re.finditer(self.pattern, text, re.MULTILINE)
        edges = [
            0,
            *(match.start() for match in matches if match.group() and match.start()),
            len(text),
        ]

        # join pieces that are too short to the next one
        pieces = []
        short = ""

        for start, end in pairwise(edges):
            short += text[start:end]
            if len(short.split()) >= max(1, self.min_words):
                pieces.append(short)
                short = ""
        # a short last piece belongs to the chapter before it
        pieces = [*pieces[:-1], pieces[-1] + short] if pieces else [short]

        offset = 0
        for piece in pieces:
            yield offset, piece
            offset += len(piece.encode("utf-8", "surrogatepass"))
