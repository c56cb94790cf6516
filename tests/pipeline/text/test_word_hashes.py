"""Hashes of words and of runs of words, against sums written out."""

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.text import word_hashes
from clozeline.pipeline.text.normal_form import match_words
from clozeline.pipeline.text.word_hashes import WordHashes, hashes_of, ngram_hashes

ODD = st.text(st.sampled_from("aB 19\n\u00a0\u2028\u0301é漢ก๑²ªſßİ\u0345\u093e\U00011173\U0001d165"), max_size=30)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=30), ODD), max_size=4))
def test_hashes_are_those_of_the_match_words(texts):
    words = WordHashes()
    for text in [*texts, *texts]:
        expected = [xxhash.xxh3_64_intdigest(word.encode()) for word in match_words(text)]
        assert hashes_of(words.digests(text)).tolist() == expected


@pytest.mark.parametrize("ngram", [1, 2, 3, 5, 8, 13, 31, 50])
def test_runs_are_polynomials_modulo_two_to_the_64(ngram):
    words = np.random.PCG64(ngram).random_raw(60)
    for count in (0, 1, ngram - 1, ngram, 60):
        expected = [
            sum(int(word) * 0x9E3779B97F4A7C15 ** (ngram - 1 - at) for at, word in enumerate(words[start:][:ngram]))
            % 2**64
            for start in range(count - ngram + 1)
        ]
        assert ngram_hashes(words[:count], ngram).tolist() == expected


def test_the_caches_do_not_grow_without_limit(monkeypatch):
    monkeypatch.setattr(word_hashes, "_CACHED", 10)
    words = WordHashes()
    for start in range(20):
        words.digests(" ".join(f"word{chr(97 + start)}{chr(97 + number)}" for number in range(9)))
    words.digests("x" * 1000)
    assert len(words) <= 10
    assert "x" * 1000 not in words
