"""Token ids as readable pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from pipeline.errors import ConfigurationError
from pipeline.shards import ShardSet
from pipeline.tokenizers import load_tokenizer
from pipeline.vocabulary import Vocabulary
from tools.lib.set_tokenizer import tokenizer_folder, vocabulary_of_manifest
from tools.viewer.view import Role, Token

__all__ = ["Mark", "Pieces", "numbers_of", "pieces_of", "visible"]

_BROKEN: Final = "\ufffd"
_LONGEST_CHARACTER: Final = 4
_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


@dataclass(frozen=True, slots=True)
class Mark:
    """The way in which a token is shown."""

    role: Role = "plain"
    number: int = 0
    note: str = ""


PLAIN: Final = Mark()


def visible(text: str) -> str:
    """Return a text whose line ends, tabs and invisible characters are signs, which cannot act on a terminal."""
    shown = text.replace("\n", "⏎\n").replace("\t", "⇥\t")
    return _UNSEEN.sub(lambda found: f"<U+{ord(found.group()):04X}>", shown)


class Decoder(Protocol):
    """The part of a tokenizer that shows ids."""

    vocabulary: Vocabulary

    def decode_part(self, ids: Iterable[int]) -> str:
        """Return the text of tokens."""

    def piece(self, token: int) -> str:
        """Return one token as the model writes it."""


class _Numbers:
    """Ids as their numbers, where there is no tokenizer."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def decode_part(self, ids: Iterable[int]) -> str:
        """Return the numbers, each with a space after it."""
        return "".join(f"{token} " for token in ids)

    def piece(self, token: int) -> str:
        """Return the number."""
        return f"{token} "


def pieces_of(shards: ShardSet, tokenizer: Path | None = None) -> Pieces | None:
    """Return the pieces of a set's tokenizer; None if it is not found above the set, so that ids must be shown.

    Args:
        shards: the set.
        tokenizer: where to look instead, see `tokenizer_folder`.

    Raises:
        ConfigurationError: there is no such tokenizer at the named place.
        IntegrityError: the tokenizer is damaged.
    """
    try:
        folder = tokenizer_folder(shards, tokenizer)
    except ConfigurationError:
        if tokenizer is not None:
            raise
        return None
    return Pieces(load_tokenizer(folder))


def numbers_of(shards: ShardSet) -> Pieces:
    """Return pieces that are the ids themselves."""
    return Pieces(_Numbers(vocabulary_of_manifest(shards.manifest.tokenizer)))


class Pieces:
    """Ids as tokens of a view."""

    def __init__(self, tokenizer: Decoder) -> None:
        self._tokenizer = tokenizer
        self.vocabulary = tokenizer.vocabulary

    def text(self, ids: Sequence[int]) -> str:
        """Return the decoded text of some tokens."""
        return visible(self._tokenizer.decode_part(ids))

    def piece(self, token: int) -> str:
        """Return the text of one token, or its piece as the model writes it if it holds only a part of a character."""
        text = self._tokenizer.decode_part([token])
        return self._tokenizer.piece(token) if _BROKEN in text else visible(text)

    def tokens(self, ids: Sequence[int], marks: Sequence[Mark] | None = None) -> list[Token]:
        """Return tokens with their marks; special tokens without a mark get one.

        Tokens that hold parts of one character and have the same mark are joined.
        """
        found: list[Token] = []
        position = 0
        while position < len(ids):
            mark = self._mark(int(ids[position]), PLAIN if marks is None else marks[position])
            length = self._whole(ids, marks, position)
            text = self.piece(int(ids[position])) if length == 1 else self.text(ids[position : position + length])
            numbers = ", ".join(str(int(token)) for token in ids[position : position + length])
            note = f"id {numbers}" + (f"; {mark.note}" if mark.note else "")
            found.append(Token(text, mark.role, mark.number, note))
            position += length
        return found

    def _mark(self, token: int, mark: Mark) -> Mark:
        if mark.role == "plain" and token < self.vocabulary.size and self.vocabulary.special[token]:
            return Mark("special", 0, mark.note)
        return mark

    def _whole(self, ids: Sequence[int], marks: Sequence[Mark] | None, position: int) -> int:
        """Return how many tokens from a position on make whole characters; 1 if none of them does."""
        if _BROKEN not in self._tokenizer.decode_part([ids[position]]):
            return 1
        for length in range(2, min(_LONGEST_CHARACTER, len(ids) - position) + 1):
            if marks is not None and marks[position + length - 1] != marks[position]:
                break
            if _BROKEN not in self._tokenizer.decode_part(ids[position : position + length]):
                return length
        return 1
