import pytest

from clozeline.configuration.config import validate
from clozeline.pipeline.tokenize.tokenizers._pieces import special_pieces
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import (
    TrainingOptions,
    count_letters,
    special_piece_roles,
)
from clozeline.pipeline.tokenize.tokenizers.character import Character
from clozeline.pipeline.tokenize.tokenizers.word import Word
from tests.refusals import refused


def test_words_by_frequency_and_the_unknown_one(tmp_path):
    text = "the cat, the dog. the cat\n" * 2 + "once"
    model = Word.train([text], Word.Options(size=158), tmp_path)

    assert [model.piece(token) for token in range(154, 158)] == [" cat", " the", "the", ","]

    row = model.encode(["the taaaasty cat, 中文"])[0]

    assert [model.piece(token) for token in row.ids.tolist()] == [
        "the",
        "<unk>",
        " cat",
        ",",
        "<unk>",
    ]
    assert row.starts.tolist() == [0, 3, 12, 16, 17]
    assert model.decode(row.ids) == "the<unk> cat,<unk>"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's the dog's hat.", "It 's the dog 's hat ."),
        ("Isn't it?  They’ll say we CAN'T!", "Is n't it ? They ’ll say we CA N'T !"),
        (
            "hat hat\nhat 'something' 'D' boys' cannot",
            "hat hat hat ' something ' ' D ' boys ' cannot",
        ),
    ],
)
def test_clitics_are_words_and_spaces_are_no_part_of_them(text, words, tmp_path):
    model = Word.train([text], Word.Options(clitics=True, min_frequency=1), tmp_path)
    row = model.encode([text])[0]

    assert [model.piece(token) for token in row.ids.tolist()] == words.split()
    assert [
        text[start:end] for start, end in zip(row.starts, row.ends, strict=True)
    ] == words.split()
    assert model.decode(row.ids) == words
    assert model.vocabulary.word_start[row.ids].all()


def test_frequent_characters_have_a_piece_and_others_their_bytes(tmp_path):
    model = Character.train(["aab b"], Character.Options(size=154 + 256 + 2), tmp_path)
    row = model.encode(["ab 中"])[0]

    assert [model.piece(token) for token in row.ids.tolist()] == [
        "a",
        "b",
        "<0x20>",
        "<0xE4>",
        "<0xB8>",
        "<0xAD>",
    ]
    assert row.starts.tolist() == [0, 1, 2, 3, 3, 3]
    assert model.decode(row.ids) == "ab 中"
    assert model.vocabulary.word_start[154 + 0x20]


def test_reserved_pieces_have_roles_or_names():
    facts = special_piece_roles(TrainingOptions(reserved=2))

    assert (facts.specials["bos"], facts.sentinels[127]) == ("<s>", "<extra_127>")
    assert facts.spares == ["<reserved_0>", "<reserved_1>"]

    named = special_piece_roles(TrainingOptions(reserved=["<de>", "<en>"]))

    assert named.spares == special_pieces(["<de>", "<en>"])[-2:] == ["<de>", "<en>"]
    assert len(special_pieces(["<de>", "<en>"])) == len(special_pieces(2))
    assert count_letters({"ba": 2, "ca": 1}, list) == ["a", "b", "c"]

    Word.check_size(Word.Options(size=155))
    needed = (
        "word: size 154 is too small: 7 special pieces, 128 `sentinels`, 3 `modes`, 16 `reserved` "
        "and a piece need 155"
    )
    with refused(needed):
        Word.check_size(Word.Options(size=154))


@pytest.mark.parametrize(
    "names", [["<de>", "<de>"], ["<mask>"], ["<extra_0>"], ["de"], ["<d e>"], ["<de"]]
)
def test_names_of_reserved_pieces_are_checked(names):
    with refused("reserved"):
        validate(Word.Options, {"reserved": names}, "test")
