"""Facts about the ids of a tokenizer, and their file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pipeline.errors import ConfigurationError, IntegrityError
from pipeline.vocabulary import Vocabulary


def vocabulary(size: int = 21) -> Vocabulary:
    special, word_start = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    special[[0, 1, size - 1]] = True
    word_start[2::3] = True
    return Vocabulary(size, {"pad": 0, "mask": 1}, (size - 1,), {}, special, word_start, "ab" * 32)


def test_a_vocabulary_is_read_as_it_was_saved(tmp_path):
    saved = vocabulary()
    saved.save(tmp_path / "vocabulary.json")
    found = Vocabulary.load(tmp_path / "vocabulary.json")
    assert (found.special == saved.special).all()
    assert (found.word_start == saved.word_start).all()
    assert (found.size, found.specials, found.sentinels, found.fingerprint) == (21, saved.specials, (20,), "ab" * 32)
    assert found.folder == tmp_path
    (tmp_path / "vocabulary.json").write_text("{}")
    with pytest.raises(IntegrityError, match="not a vocabulary written by train_tokenizer"):
        Vocabulary.load(tmp_path / "vocabulary.json")


def test_ids_that_objectives_may_select_and_draw():
    assert vocabulary().replaceable.tolist() == list(range(2, 20))
    assert np.flatnonzero(vocabulary().maskable).tolist() == list(range(2, 20))


@pytest.mark.parametrize(("size", "dtype"), [(65536, np.uint16), (65537, np.uint32)])
def test_ids_take_two_bytes_where_they_fit(size, dtype):
    assert vocabulary(size).id_dtype is dtype


def test_an_absent_special_is_named_with_what_there_is():
    assert vocabulary().id_of("mask", "masked_lm") == 1
    with pytest.raises(ConfigurationError, match=r"token 'cls', the tokenizer has: mask, pad; `tokenizer\.add: true`"):
        vocabulary().id_of("cls", "masked_lm")


@pytest.mark.parametrize("field", ["special", "word_start", "token_counts"])
def test_bitmaps_and_counts_have_one_place_an_id(field):
    with pytest.raises(IntegrityError, match="20"):
        replace(vocabulary(), **{field: np.zeros(20, np.uint64 if field == "token_counts" else np.bool_)})
