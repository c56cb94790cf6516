"""Sentence splitters: one algorithm a file, each giving the character offsets that tile a text."""

from __future__ import annotations

from typing import Protocol


class Sentences(Protocol):
    """The interface of sentence splitters."""

    def starts(self, text: str, language: str) -> list[int]:
        """Return character offsets of the sentences: first 0, strictly increasing, each below `len(text)`.

        White space between two sentences belongs to the first, so joining the slices gives the text back. The empty
        text has no sentence.

        Args:
            text: the document's text.
            language: its ISO 639 code; `und` where unknown.
        """
        ...
