"""Token ids as readable pieces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.errors import ConfigurationError
from pipeline.shards import ShardSet
from pipeline.tokenizers import Tokenizer, find_tokenizer, load_tokenizer
from tools.viewer.view import Role, Token

__all__ = ["Mark", "Pieces", "pieces_of", "visible"]

_BROKEN: Final = "\ufffd"
_LONGEST_CHARACTER: Final = 4
_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


@dataclass(frozen=True, slots=True)
class Mark:
    """How a token is shown."""

    role: Role = "plain"
    number: int = 0
    note: str = ""


PLAIN: Final = Mark()


def visible(text: str) -> str:
    """Line ends, tabs and what has no shape become signs, so that they are seen and cannot act on a terminal."""
    shown = text.replace("\n", "⏎\n").replace("\t", "⇥\t")
    return _UNSEEN.sub(lambda found: f"<U+{ord(found.group()):04X}>", shown)


def pieces_of(shards: ShardSet) -> Pieces | None:
    """Pieces of the set's tokenizer; None where it does not stand above the set, and ids must do."""
    try:
        return Pieces(load_tokenizer(find_tokenizer(shards.path, shards.manifest.tokenizer.fingerprint)))
    except ConfigurationError:
        return None


class Pieces:
    """Ids as tokens of a view."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.vocabulary = tokenizer.vocabulary

    def text(self, ids: Sequence[int]) -> str:
        """The decoded text of some tokens."""
        return visible(self._tokenizer.decode(ids))

    def piece(self, token: int) -> str:
        """One token: its text, or the piece as the model writes it where it is no whole character."""
        text = self._tokenizer.decode([token])
        return self._tokenizer.piece(token) if _BROKEN in text else visible(text)

    def tokens(self, ids: Sequence[int], marks: Sequence[Mark] | None = None) -> list[Token]:
        """Tokens with their marks; specials without a mark are marked as such.

        Tokens that hold parts of one character are joined where they bear the same mark.
        """
        found: list[Token] = []
        place = 0
        while place < len(ids):
            mark = self._mark(int(ids[place]), PLAIN if marks is None else marks[place])
            length = self._whole(ids, marks, place)
            text = self.piece(int(ids[place])) if length == 1 else self.text(ids[place : place + length])
            numbers = ", ".join(str(int(token)) for token in ids[place : place + length])
            note = f"id {numbers}" + (f"; {mark.note}" if mark.note else "")
            found.append(Token(text, mark.role, mark.number, note))
            place += length
        return found

    def _mark(self, token: int, mark: Mark) -> Mark:
        if mark.role == "plain" and token < self.vocabulary.size and self.vocabulary.special[token]:
            return Mark("special", 0, mark.note)
        return mark

    def _whole(self, ids: Sequence[int], marks: Sequence[Mark] | None, place: int) -> int:
        """Tokens, from `place` on, that are needed for whole characters; 1 where they never are."""
        if _BROKEN not in self._tokenizer.decode([ids[place]]):
            return 1
        for length in range(2, min(_LONGEST_CHARACTER, len(ids) - place) + 1):
            if marks is not None and marks[place + length - 1] != marks[place]:
                break
            if _BROKEN not in self._tokenizer.decode(ids[place : place + length]):
                return length
        return 1
