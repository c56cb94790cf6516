"""Token ids as passages and cells of a view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from numpy.typing import NDArray

from tools.viewer.pieces import PLAIN, Mark, Pieces
from tools.viewer.view import Cell, Passage, Token

__all__ = ["Passages"]

_CONTEXT: Final = 5
"""Tokens shown on either side of a token."""


@dataclass(frozen=True, slots=True)
class Passages:
    """Passages and cells of token ids.

    Args:
        pieces: ids to text.
        limit: tokens of a passage that are shown.
    """

    pieces: Pieces
    limit: int

    def passage(
        self,
        title: str,
        ids: NDArray[Any],
        marks: Sequence[Mark] | None = None,
        markers: Mapping[int, str] | None = None,
    ) -> Passage:
        """Return a passage of at most `limit` tokens; `markers` are signs in front of the tokens at some positions."""
        shown, signs = min(len(ids), self.limit), markers or {}
        cuts = sorted({0, shown, *(position for position in signs if 0 <= position < shown)})
        tokens: list[Token] = []
        for first, last in pairwise(cuts):
            if first in signs:
                tokens.append(Token(signs[first], "marker"))
            tokens += self.pieces.tokens(ids[first:last].tolist(), None if marks is None else marks[first:last])
        if shown < len(ids):
            tokens.append(Token(f" … {len(ids) - shown:,} more tokens", "marker"))
        return Passage(f"{title} ({len(ids):,} tokens)", tuple(tokens))

    def cell(self, ids: NDArray[Any], mark: Mark = PLAIN) -> Cell:
        """Return a cell of tokens with one mark."""
        return tuple(self.pieces.tokens(ids.tolist(), [mark] * len(ids)))

    def around(self, ids: NDArray[Any], position: int) -> tuple[Cell, Cell]:
        """Return the tokens before and after a position, a few of each."""
        before, after = ids[max(0, position - _CONTEXT) : position], ids[position + 1 : position + 1 + _CONTEXT]
        return self.cell(before), self.cell(after)

    def label(self, token: int, mark: Mark) -> tuple[Token, ...]:
        """Return one token on one line; blanks alone are shown by signs."""
        (shown,) = self.pieces.tokens([token], [mark])
        text = shown.text.replace("\n", "")
        return (replace(shown, text=text if text.strip() else "␣" * len(text)),)
