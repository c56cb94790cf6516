"""Facts about the ids of a tokenizer, and their file."""

from dataclasses import replace

import numpy as np
import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.vocabulary import Corpus, Vocabulary
from tests.refusals import refused


def vocabulary(size=21):
    special = np.zeros(size, np.bool_)
    word_start = np.zeros(size, np.bool_)
    special[[0, 1, size - 1]] = True
    word_start[2::3] = True
    return Vocabulary(
        size,
        {"pad": 0, "mask": 1},
        (size - 1,),
        {},
        special,
        word_start,
        "ab" * 32,
    )


@pytest.mark.parametrize("ends", [None, [], [4]])
def test_a_vocabulary_is_read_as_it_was_saved(tmp_path, ends):
    """What ends in white space, and what is a byte, is in the file where there is any."""
    bitmap = None if ends is None else np.isin(np.arange(21), ends)
    saved = replace(vocabulary(), word_end=bitmap, byte_piece=bitmap)
    saved.save(tmp_path / "vocabulary.json")
    found = Vocabulary.load(tmp_path / "vocabulary.json")

    assert (found.special == saved.special).all()
    assert (found.word_start == saved.word_start).all()
    assert (found.ends_word == saved.ends_word).all()
    assert (found.word_end is not None) == (found.byte_piece is not None) == bool(ends)
    assert not ends or found.byte_piece.tolist() == bitmap.tolist()
    assert (found.size, found.specials, found.sentinels, found.fingerprint) == (
        21,
        saved.specials,
        (20,),
        "ab" * 32,
    )
    assert found.folder == tmp_path

    (tmp_path / "vocabulary.json").write_text("{}")
    with pytest.raises(IntegrityError, match="this is not a vocabulary of train_tokenizer"):
        Vocabulary.load(tmp_path / "vocabulary.json")


def test_words_open_after_a_newline_and_never_at_a_special():
    saved = replace(vocabulary(), word_end=np.arange(21) == 4)
    ids = np.array([3, 4, 3, 5, 4, 4, 3, 4, 1, 3, 2, 4], np.uint16)

    assert np.flatnonzero(vocabulary().opens_word(ids)).tolist() == [3, 10]
    assert np.flatnonzero(saved.opens_word(ids)).tolist() == [2, 3, 5, 6, 10]
    assert saved.opens_word(ids[:0]).tolist() == []
    assert saved.word_start.tolist() == vocabulary().word_start.tolist(), "the bitmap itself stays"


@pytest.mark.parametrize(
    ("size", "dtype"),
    [
        (65536, np.uint16),
        (65537, np.uint32),
    ],
)
def test_ids_take_two_bytes_where_they_fit(size, dtype):
    assert vocabulary(size).id_dtype is dtype
    assert vocabulary(size).replaceable.tolist() == list(range(2, size - 1))


def test_random_replacement_draws_from_ids_that_occur():
    """Without counts, or where nothing was counted: from characters, and only where there are none
    from bytes."""
    bytes_ = replace(vocabulary(), byte_piece=np.arange(21) >= 5)

    assert bytes_.replaceable.tolist() == [2, 3, 4]
    assert replace(vocabulary(), byte_piece=np.ones(21, np.bool_)).replaceable.tolist() == list(
        range(2, 20)
    )

    counts = np.isin(np.arange(21), [0, 3, 7, 20]).astype(np.uint64)

    for words in (vocabulary(), bytes_):
        assert replace(words, corpus=Corpus(counts)).replaceable.tolist() == [3, 7], (
            "a byte that occurs is drawn"
        )

    assert replace(bytes_, corpus=Corpus(np.zeros(21, np.uint64))).replaceable.tolist() == [2, 3, 4]


def test_an_absent_special_is_named_with_what_there_is():
    assert vocabulary().id_of("mask", "masked_lm") == 1

    with refused(r"token 'cls', the tokenizer has: mask, pad; `tokenizer\.add: true`"):
        vocabulary().id_of("cls", "masked_lm")


@pytest.mark.parametrize("field", ["special", "word_start", "word_end", "byte_piece"])
def test_bitmaps_have_one_place_an_id(field):
    with pytest.raises(IntegrityError, match="20"):
        replace(vocabulary(), **{field: np.zeros(20, np.bool_)})


def test_an_unknown_token_is_content_unless_its_id_has_another_role_too():
    roles = {"pad": 0, "mask": 1, "unk": 5}
    saved = replace(
        vocabulary(),
        specials=roles,
        special=np.isin(np.arange(21), [0, 1, 5, 6, 20]),
    )

    assert np.flatnonzero(saved.reserved).tolist() == [0, 1, 6, 20]

    for shared in ({**roles, "eos": 5}, {"pad": 0, "mask": 1}):
        assert np.flatnonzero(replace(saved, specials=shared).reserved).tolist() == [0, 1, 5, 6, 20]

    assert replace(saved, sentinels=(5, 20)).reserved[5]
