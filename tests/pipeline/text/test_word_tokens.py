import gc
import json
import weakref
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clozeline.pipeline.text import word_tokens as module
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.pipeline.text.word_tokens import TokenTable, word_tokens

RECORDED = json.loads(
    (Path(__file__).parents[1] / "clean" / "filters" / "datatrove_verdicts.json").read_text(encoding="utf-8")
)["tokens"]


def test_tokens_are_the_peers():
    differences = {chunk: word_tokens(chunk) for chunk, tokens in RECORDED.items() if word_tokens(chunk) != tokens}
    assert len(RECORDED) > 300
    assert differences == {}


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Don't go (yet).", ["Do", "n't", "go", "(", "yet", ")", "."]),
        ("We'd've said so", ["We", "'d", "'ve", "said", "so"]),
        ("the U.S. and e.g. Mr. Smith.", ["the", "U.S.", "and", "e.g.", "Mr.", "Smith", "."]),
        ("a state-of-the-art, 10km run", ["a", "state", "-", "of", "-", "the", "-", "art", ",", "10", "km", "run"]),
        ("see https://example.org/a-b?c=d.", ["see", "https://example.org/a-b?c=d", "."]),
        ("f(x)=3 cannot.", ["f(x)=3", "can", "not", "."]),
        ("end.Begin 1,000 3.14", ["end", ".", "Begin", "1,000", "3.14"]),
        ("wait......", ["wait", "......"]),
        ("今日は。明日、", ["今日は", "。", "明日", "、"]),
        ("x" * 300 + ",y", ["x" * 300, ",", "y"]),
        ("x" * 300 + "+1", ["x" * 300, "+", "1"]),
        ("", []),
    ],
)
def test_by_hand(text, tokens):
    assert word_tokens(text) == tokens


@given(st.one_of(st.text(max_size=80), st.text("aB.,'’-(1 n", max_size=40)))
def test_no_visible_character_is_lost(text):
    assert "".join(word_tokens(text)) == "".join(text.split())


def test_tokens_have_one_id_each_in_a_table_that_grows():
    chunks = [f"word{index}." for index in range(10_000)] + ["x" * 300 + ",y", "--", "'s", "_1_"] * 2
    table = TokenTable()
    ids = table.ids_of(chunks).tolist()
    tokens = [token for chunk in chunks for token in word_tokens(chunk)]
    assert [table.tokens[number] for number in ids] == tokens
    assert len(set(ids)) == len(set(tokens)) == len(table.tokens)
    for number, token in enumerate(table.tokens):
        is_word = any(map(str.isalnum, token))
        assert (table.lengths[number], table.word_lengths[number]) == (len(token), len(token) * is_word)
        assert table.has_letter[number] == any(map(str.isalpha, token))


def test_a_full_table_is_freed_with_its_last_text(monkeypatch):
    """By its reference count: a process that cleans rarely collects garbage, because it makes few cycles."""
    monkeypatch.setattr(module, "_CACHED", 1)
    monkeypatch.setattr(module, "_shared", TokenTable())
    table = weakref.ref(module._shared)
    text = TextStatistics("two words")
    assert text.token_count == 2
    gc.disable()
    try:
        assert TextStatistics("more words").token_count == 2
        assert text.token_count == 2
        del text
        assert table() is None
    finally:
        gc.enable()


@given(st.text(st.characters(categories=["L"]) | st.sampled_from("cannotCANNOTſ'’.,;!?0-"), min_size=1, max_size=9))
@example("cannot,")
@example("Cannot")
@example("ſ!")
def test_the_short_way_of_plain_words_gives_the_same_tokens(chunk):
    assert module._split_chunk(chunk) == module._split_marks(chunk)
