from __future__ import annotations

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.tokenize.tokenizers._pieces import special_pieces
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import count_letters, special_piece_roles
from clozeline.pipeline.tokenize.tokenizers.word import Word


def test_letters_by_frequency_then_by_first_appearance():
    assert count_letters({"ba": 2, "ca": 1}, list) == ["a", "b", "c"]


def test_reserved_pieces_have_their_roles():
    facts = special_piece_roles(2)
    assert (facts.specials["bos"], facts.sentinels[127], facts.spares) == (
        "<s>",
        "<extra_127>",
        ["<reserved_0>", "<reserved_1>"],
    )


def test_reserved_pieces_may_have_names():
    assert special_piece_roles(["<de>", "<en>"]).spares == special_pieces(["<de>", "<en>"])[-2:] == ["<de>", "<en>"]
    assert len(special_pieces(["<de>", "<en>"])) == len(special_pieces(2))


@pytest.mark.parametrize("names", [["<de>", "<de>"], ["<mask>"], ["<extra_0>"], ["de"], ["<d e>"], ["<de"]])
def test_names_of_reserved_pieces_are_checked(names):
    with pytest.raises(ConfigurationError, match="reserved"):
        validate(Word.Options, {"reserved": names}, "test")


def test_room_is_checked():
    Word.check_size(Word.Options(size=155))
    with pytest.raises(
        ConfigurationError, match="word: size 154 is too small: 154 reserved pieces and 1 more need 155"
    ):
        Word.check_size(Word.Options(size=154))
