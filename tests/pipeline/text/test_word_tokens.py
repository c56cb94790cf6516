import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.text.word_tokens import word_tokens

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
