"""Turn token ids into marked, readable tokens of a view."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol

from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.pipeline.corrupt.preview.view import Cell, Passage, Role, Token
from clozeline.pipeline.vocabulary import Vocabulary

_BROKEN: Final = "\ufffd"
_LONGEST_CHARACTER: Final = 4
# Tokens shown on either side of a token.
_CONTEXT: Final = 5
_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


class Mark(NamedTuple):
    """Role, number and note of a token."""

    role: Role = "plain"
    number: int = 0
    note: str = ""


PLAIN: Final = Mark()


def visible(text: str) -> str:
    """Replace line ends, tabs and invisible characters with visible symbols, so that text cannot control a terminal."""
    shown = text.replace("\n", "⏎\n").replace("\t", "⇥\t")
    return _UNSEEN.sub(lambda match: f"<U+{ord(match.group()):04X}>", shown)


class Decoder(Protocol):
    """Part of a tokenizer that `Pieces` uses."""

    vocabulary: Vocabulary

    def decode_part(self, ids: Iterable[int]) -> str:
        """Return the text of ids inside a text, with the space before a word."""

    def piece(self, token: int) -> str:
        """Return one token as the model file writes it."""


class Numbers:
    """Decode ids as their numbers, where there is no tokenizer."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def decode_part(self, ids: Iterable[int]) -> str:
        return "".join(f"{token} " for token in ids)

    def piece(self, token: int) -> str:
        return f"{token} "


class Pieces:
    """Show token ids as tokens, cells and passages of a view, up to `limit` tokens of a passage."""

    def __init__(self, tokenizer: Decoder, limit: int = 1024) -> None:
        self._tokenizer, self._limit = tokenizer, limit
        self.vocabulary = tokenizer.vocabulary

    def text(self, ids: Sequence[int]) -> str:
        """Return the decoded text of some tokens."""
        return visible(self._tokenizer.decode_part(ids))

    def piece(self, token: int) -> str:
        """Return the text of one token, or its piece as the model writes it if it holds only a part of a character."""
        text = self._tokenizer.decode_part([token])
        return self._tokenizer.piece(token) if _BROKEN in text else visible(text)

    def tokens(self, ids: Sequence[int], marks: Sequence[Mark] | None = None) -> list[Token]:
        """Return tokens with marks, also for special tokens; parts of one character with the same mark are joined."""
        tokens: list[Token] = []
        marks = [PLAIN] * len(ids) if marks is None else marks
        position, special = 0, self.vocabulary.special
        while position < len(ids):
            first, mark = int(ids[position]), marks[position]
            if mark.role == "plain" and first < self.vocabulary.size and special[first]:
                mark = mark._replace(role="special")
            length = self._tokens_of_character(ids, marks, position)
            text = self.piece(first) if length == 1 else self.text(ids[position : position + length])
            numbers = ", ".join(str(int(token)) for token in ids[position : position + length])
            note = f"id {numbers}" + (f"; {mark.note}" if mark.note else "")
            tokens.append(Token(text, mark.role, mark.number, note))
            position += length
        return tokens

    def passage(
        self,
        title: str,
        ids: NDArray[Any],
        marks: Sequence[Mark] | None = None,
        markers: Mapping[int, str] | None = None,
    ) -> Passage:
        """Return a passage, cut at the limit; `markers` are signs in front of the tokens at some positions."""
        shown, signs = min(len(ids), self._limit), markers or {}
        tokens: list[Token] = []
        for first, last in pairwise(sorted({0, shown, *(position for position in signs if 0 <= position < shown)})):
            if first in signs:
                tokens.append(Token(signs[first], "marker"))
            tokens += self.tokens(ids[first:last].tolist(), None if marks is None else marks[first:last])
        if shown < len(ids):
            tokens.append(Token(f" … {len(ids) - shown:,} more tokens", "marker"))
        return Passage(f"{title} ({len(ids):,} tokens)", tuple(tokens))

    def cell(self, ids: NDArray[Any], mark: Mark = PLAIN) -> Cell:
        """Return a cell of tokens with one mark."""
        return tuple(self.tokens(ids.tolist(), [mark] * len(ids)))

    def around(self, ids: NDArray[Any], position: int) -> tuple[Cell, Cell]:
        """Return the few tokens before and after a position."""
        before, after = ids[max(0, position - _CONTEXT) : position], ids[position + 1 : position + 1 + _CONTEXT]
        return self.cell(before), self.cell(after)

    def label(self, token: int, mark: Mark) -> tuple[Token, ...]:
        """Return one token on one line; a token of blanks is shown by signs."""
        (shown,) = self.tokens([token], [mark])
        text = shown.text.replace("\n", "")
        return (replace(shown, text=text if text.strip() else "␣" * len(text)),)

    def without_end(self, target: Int64) -> Int64:
        """Return a target without its end token."""
        end = self.vocabulary.specials.get("eos")
        return target[:-1] if len(target) and int(target[-1]) == end else target

    def _tokens_of_character(self, ids: Sequence[int], marks: Sequence[Mark], position: int) -> int:
        """Return how many tokens from a position on form complete characters; 1 if no number of them does."""
        if _BROKEN not in self._tokenizer.decode_part([ids[position]]):
            return 1
        for length in range(2, min(_LONGEST_CHARACTER, len(ids) - position) + 1):
            if marks[position + length - 1] != marks[position]:
                break
            if _BROKEN not in self._tokenizer.decode_part(ids[position : position + length]):
                return length
        return 1
