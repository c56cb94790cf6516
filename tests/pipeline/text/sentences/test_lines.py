from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.text.sentences.lines import Lines


@pytest.fixture(scope="module")
def splitter():
    return Lines(Lines.Options())


def test_the_worked_example(splitter):
    assert splitter.starts("One.\nTwo. Three.\n\nFour", "en") == [0, 5, 18]


@given(text=st.text(st.sampled_from("ab. \n\t\r\u2028"), max_size=40))
def test_every_line_with_visible_text_begins_a_sentence(splitter, text):
    starts = splitter.starts(text, "und")
    bounds = [*starts, len(text)]
    assert "".join(text[a:b] for a, b in pairwise(bounds)) == text
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    assert [text[a:b].strip() for a, b in pairwise(bounds) if text[a:b].strip()] == lines
    assert len(starts) == max(len(lines), bool(text))
