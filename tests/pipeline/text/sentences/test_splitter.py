"""Promises of every sentence splitter."""

from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.registries import SENTENCES
from tests.contracts import contract

TEXT = st.text(
    st.sampled_from("aB1 .!?…\n\t。！\u00a0\u2028»”')]«“(,;-DrtcJ中ن؟"), max_size=60
) | st.text(max_size=40)


@contract(SENTENCES)
@settings(max_examples=300)
@given(text=TEXT, language=st.sampled_from(["en", "de", "fr", "es", "zh", "ar", "th", "und", ""]))
def test_sentences_tile_the_text_and_begin_with_what_is_visible(name, text, language):
    splitter = SENTENCES.resolve(name).build()

    assert isinstance(splitter.VERSION, int)

    starts = splitter.starts(text, language)

    assert starts == sorted(set(starts))
    assert starts[:1] == ([0] if text else [])
    assert all(0 < start < len(text) and not text[start].isspace() for start in starts[1:])
