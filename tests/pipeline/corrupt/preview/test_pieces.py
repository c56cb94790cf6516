"""Ids as readable tokens."""

from __future__ import annotations

from collections.abc import Iterable

from clozeline.pipeline.corrupt.preview.pieces import Mark, Pieces, visible
from tests.pipeline.corruption_cases import vocabulary


class Bytes:
    """A tokenizer whose ids are the bytes of a text."""

    vocabulary = vocabulary(1000)

    def decode_part(self, ids: Iterable[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")

    def piece(self, token: int) -> str:
        return f"<0x{token:02X}>"


def test_signs_for_what_cannot_be_seen() -> None:
    assert visible("a\tb\n\x1b[1m\u200b") == "a⇥\tb⏎\n<U+001B>[1m<U+200B>"


def test_tokens_of_one_character_are_joined_unless_their_marks_differ() -> None:
    pieces, ids = Pieces(Bytes()), list("鲸".encode())
    (joined,) = pieces.tokens(ids)
    assert (joined.text, joined.note) == ("鲸", f"id {', '.join(map(str, ids))}")
    split = pieces.tokens(ids, [Mark("masked"), *[Mark()] * (len(ids) - 1)])
    assert [token.role for token in split] == ["masked", *["plain"] * (len(ids) - 1)]
    assert split[0].text == "<0xE9>"


def test_special_tokens_are_marked() -> None:
    first, second = Pieces(Bytes()).tokens([Bytes.vocabulary.specials["cls"], 200])
    assert (first.role, second.role) == ("special", "plain")
