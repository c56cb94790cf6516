"""View model for terminal and page: passages of marked tokens, and tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

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
    "sentinel": "sentinel; the same color is the same span",
    "span": "text that was removed",
    "infilled": "one token that replaces a span",
    "sentence": "sentence; the same color is the same sentence",
    "moved": "tokens moved from the front to the end",
    "prefix": "prefix: every position reads it",
    "predicted": "token that is predicted, unseen until its turn",
}
"""The legend: the meaning of each role, in the order shown; `plain` needs none."""
NUMBERED: Final = frozenset(("sentinel", "span", "infilled", "sentence"))
"""Roles whose number has a color."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text; `number` distinguishes spans and sentences, `note` is a tooltip on the page."""

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
    """A table; one with an empty header lists names and values."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


Parts: TypeAlias = Sequence[Passage | Sheet]


@dataclass(frozen=True, slots=True)
class View:
    """A title with the parts below it."""

    title: str
    parts: Parts

    def legend(self) -> list[Token]:
        """Return one token for each role that occurs, with its meaning as text."""
        texts: list[Cell] = []
        for part in self.parts:
            texts += [part.tokens] if isinstance(part, Passage) else [cell for row in part.rows for cell in row]
        used = {token.role for text in texts if not isinstance(text, str) for token in text}
        return [Token(meaning, role) for role, meaning in MEANINGS.items() if role in used]
