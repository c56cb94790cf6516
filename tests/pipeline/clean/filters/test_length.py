"""The minimum of characters, counted as in SlimPajama's own code."""

import string

from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.clean.filters.length import Length
from clozeline.tools.start.contracts.filters import judge_text

CASES = {"characters": "one, two"}


@given(st.text(st.sampled_from("ab ÄÖ。!?_-^`\n\t"), max_size=30))
def test_characters_without_marks_and_repeated_blanks(text):
    kept = text.translate(str.maketrans("", "", string.punctuation))
    wanted = len(" ".join(kept.split()))
    verdict = judge_text(Length(Length.Options(characters=10)), text)

    assert verdict.reason == ("characters" if wanted < 10 else "")
