"""Promises of every sentence splitter, and the rules of those that split at line ends and blanks."""

import inspect
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.text.sentences.lines import Lines
from clozeline.pipeline.text.sentences.phrases import Phrases
from clozeline.registry import choose, find, names

NAMES = names("clozeline.pipeline.text.sentences")
TEXT = st.text(st.sampled_from("aB1 .!?…\n\t。！\u00a0\u2028»”')]«“(,;-DrtcJ中ن؟"), max_size=60) | st.text(max_size=40)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=300, deadline=None)
@given(text=TEXT, language=st.sampled_from(["en", "de", "fr", "es", "zh", "ar", "th", "und", ""]))
def test_sentences_tile_the_text_and_begin_with_what_is_visible(name, text, language):
    starts = choose("clozeline.pipeline.text.sentences", name).build().starts(text, language)
    assert starts == sorted(set(starts))
    assert starts[:1] == ([0] if text else [])
    assert all(0 < start < len(text) and not text[start].isspace() for start in starts[1:])


@pytest.mark.parametrize("name", NAMES)
def test_a_splitter_has_a_version_and_says_what_it_does(name):
    kind = find("clozeline.pipeline.text.sentences", name)
    assert isinstance(kind.VERSION, int)
    assert inspect.getdoc(kind)


@given(text=st.text(st.sampled_from("ab. \n\t\r\u2028"), max_size=40))
def test_every_line_with_visible_text_begins_a_sentence(text):
    starts = Lines(Lines.Options()).starts(text, "und")
    found = [text[start:end].strip() for start, end in pairwise([*starts, len(text)])]
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    assert [one for one in found if one] == lines
    assert len(starts) == max(len(lines), bool(text))


def split_slowly(text, characters):
    """Return the starts by the rule alone: a newline ends a phrase, a blank ends one of enough characters."""
    starts = [0] if text else []
    begin = len(text) - len(text.lstrip())
    end = len(text.rstrip())
    position = begin
    while position < end:
        if text[position].isspace():
            after = position
            while after < end and text[after].isspace():
                after += 1
            if "\n" in text[position:after] or position - begin >= characters:
                starts.append(after)
                begin = after
            position = after
        else:
            position += 1
    return starts


@given(st.text(alphabet="ab \n", max_size=60), st.integers(1, 9))
def test_phrases_are_those_of_the_rule(text, characters):
    assert Phrases(Phrases.Options(characters=characters)).starts(text, "th") == split_slowly(text, characters)
