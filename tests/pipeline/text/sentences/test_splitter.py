"""Promises of every sentence splitter."""

import inspect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.registry import choose, find, names

TEXT = st.text(st.sampled_from("aB1 .!?\n\t。\u2028”"), max_size=40) | st.text(max_size=40)


@pytest.mark.parametrize("name", names("clozeline.pipeline.text.sentences"))
@settings(max_examples=60, deadline=None)
@given(text=TEXT, language=st.sampled_from(["en", "zh", "und", ""]))
def test_sentences_tile_the_text_and_begin_with_what_is_visible(name, text, language):
    starts = choose("clozeline.pipeline.text.sentences", name).build().starts(text, language)
    assert starts == sorted(set(starts))
    assert starts[:1] == ([0] if text else [])
    assert all(0 < start < len(text) and not text[start].isspace() for start in starts[1:])


@pytest.mark.parametrize("name", names("clozeline.pipeline.text.sentences"))
def test_a_splitter_has_a_version_and_says_what_it_does(name):
    kind = find("clozeline.pipeline.text.sentences", name)
    assert inspect.getdoc(kind)
    assert choose("clozeline.pipeline.text.sentences", name).plain()["name"] == name
