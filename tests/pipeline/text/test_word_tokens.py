"""Tokens of words as the peer has them, and hashes of words and of runs of words against sums
written out."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clozeline.pipeline.text import normal_form
from clozeline.pipeline.text import word_tokens as module
from clozeline.pipeline.text.word_hashes import hash_ngrams
from clozeline.pipeline.text.word_tokens import TokenTable
from tests.pipeline.text.tokens import word_tokens

RECORDED = json.loads(
    (Path(__file__).parents[1] / "clean" / "filters" / "datatrove_verdicts.json").read_text()
)["tokens"]


def test_tokens_are_the_peers():
    differences = {
        chunk: word_tokens(chunk)
        for chunk, tokens in RECORDED.items()
        if word_tokens(chunk) != tokens
    }

    assert len(RECORDED) > 300
    assert differences == {}


@given(st.one_of(st.text(max_size=80), st.text("aB.,'’-(1 n", max_size=40)))
def test_no_visible_character_is_lost(text):
    assert "".join(word_tokens(text)) == "".join(text.split())


def test_tokens_have_one_id_each_in_a_table_that_grows():
    chunks = [f"word{index}." for index in range(10_000)] + [
        "x" * 300 + ",y",
        "--",
        "'s",
        "_1_",
    ] * 2

    table = TokenTable()
    ids = table.ids_of(chunks).tolist()
    tokens = [token for chunk in chunks for token in word_tokens(chunk)]

    assert [table.tokens[number] for number in ids] == tokens
    assert len(set(ids)) == len(set(tokens)) == len(table.tokens)

    for number, token in enumerate(table.tokens):
        is_word = any(map(str.isalnum, token))
        expected = {
            "lengths": len(token),
            "sizes": len(token) * is_word,
            "letters": len(token) * is_word,
            "word_counts": is_word,
            "has_letter": any(map(str.isalpha, token)),
        }
        assert {name: column[number] for name, column in table.columns.items()} == expected


@given(
    st.text(
        st.characters(categories=["L"]) | st.sampled_from("cannotCANNOTſ'’.,;!?0-"),
        min_size=1,
        max_size=9,
    )
)
@example("cannot,")
@example("Cannot")
@example("ſ!")
def test_the_short_way_of_plain_words_gives_the_same_tokens(chunk):
    assert module._split_chunk(chunk) == module._split_marks(chunk)


# Word hashes
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ngram", [1, 2, 3, 5, 8, 13, 31, 50])
def test_runs_are_polynomials_modulo_two_to_the_64(ngram):
    words = np.random.PCG64(ngram).random_raw(60)

    for count in (0, 1, ngram - 1, ngram, 60):
        expected = [
            sum(
                int(word) * 0x9E3779B97F4A7C15 ** (ngram - 1 - at)
                for at, word in enumerate(words[start:][:ngram])
            )
            % 2**64
            for start in range(count - ngram + 1)
        ]

        assert hash_ngrams(words[:count], ngram).tolist() == expected


def test_a_cache_has_a_limit_and_no_long_parts(monkeypatch):
    monkeypatch.setattr(normal_form, "_MOST_CACHED", 10)
    cache = normal_form.PartCache(bytes.upper)
    parts = [b"%d" % number for number in range(25)] + [b"x" * 1000]

    assert [cache[part] for part in parts] == [part.upper() for part in parts]
    assert len(cache) == 5
