"""Content to show, without its form: passages of marked tokens and sheets of cells, for terminal and page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

__all__ = ["MEANINGS", "Cell", "Passage", "Role", "Sheet", "Token", "View"]

Role: TypeAlias = Literal[
    "plain", "special", "marker", "masked", "replaced", "kept", "sentinel", "span", "infilled", "sentence", "moved",
    "prefix", "predicted",
]  # fmt: skip

MEANINGS: Final[dict[Role, str]] = {
    "special": "special token of the frame",
    "marker": "boundary, not a token",
    "masked": "label hidden by the mask token",
    "replaced": "label replaced by a random token",
    "kept": "label left as it is",
    "sentinel": "sentinel; the same colour is the same span",
    "span": "text that was removed",
    "infilled": "one token in place of a whole span",
    "sentence": "sentence; the same colour is the same sentence",
    "moved": "tokens moved from the front to the end",
    "prefix": "prefix: every position reads it",
    "predicted": "token that is predicted, unseen until its turn",
}
"""The legend: the meaning of each role, in the order shown; `plain` needs none."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text; `number` distinguishes spans and sentences, `note` explains the token on the page."""

    text: str
    role: Role = "plain"
    number: int = 0
    note: str = ""


Cell: TypeAlias = str | tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """Running text."""

    title: str
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table; an empty header is a list of names and values."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class View:
    """One row of a shard set, ready to be shown."""

    title: str
    parts: tuple[Passage | Sheet, ...]

    def legend(self) -> list[Token]:
        """Return one token for each role that occurs, with its meaning as text."""
        used = {token.role for token in self._tokens()}
        return [Token(meaning, role) for role, meaning in MEANINGS.items() if role in used]

    def _tokens(self) -> Iterator[Token]:
        for part in self.parts:
            if isinstance(part, Passage):
                yield from part.tokens
            else:
                for row in part.rows:
                    for cell in row:
                        if not isinstance(cell, str):
                            yield from cell
