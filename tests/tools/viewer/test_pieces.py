"""Ids as readable tokens."""

from __future__ import annotations

from tools.viewer.pieces import Mark, Pieces, visible


def test_signs_for_what_cannot_be_seen() -> None:
    assert visible("a\tb\n\x1b[1m\u200b") == "a⇥\tb⏎\n<U+001B>[1m<U+200B>"


def test_tokens_of_one_character_are_joined_unless_their_marks_differ(tokenizer) -> None:
    pieces = Pieces(tokenizer)
    ids = [int(token) for token in tokenizer.encode(["鲸"])[0].ids]
    assert len(ids) > 1
    (whole,) = pieces.tokens(ids)
    assert (whole.text, whole.note) == ("鲸", f"id {', '.join(map(str, ids))}")
    marks = [Mark("masked"), *[Mark()] * (len(ids) - 1)]
    split = pieces.tokens(ids, marks)
    assert len(split) == len(ids)
    assert [token.role for token in split] == ["masked", *["plain"] * (len(ids) - 1)]


def test_special_tokens_are_marked(tokenizer) -> None:
    first, second = Pieces(tokenizer).tokens([tokenizer.vocabulary.specials["cls"], 300])
    assert (first.text, first.role) == ("<cls>", "special")
    assert second.role == "plain"
