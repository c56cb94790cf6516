from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.text.sentences.lines import Lines


@given(text=st.text(st.sampled_from("ab. \n\t\r\u2028"), max_size=40))
def test_every_line_with_visible_text_begins_a_sentence(text):
    starts = Lines(Lines.Options()).starts(text, "und")
    found = [text[start:end].strip() for start, end in pairwise([*starts, len(text)])]
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    assert [one for one in found if one] == lines
    assert len(starts) == max(len(lines), bool(text))
