"""Promises of every language identifier."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.clean.languages import UNDECIDED
from clozeline.registry import choose, find, names

NAMES = names("clozeline.pipeline.clean.languages")


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(text=st.text(max_size=60), more=st.text(max_size=20))
def test_any_text_has_an_answer_that_depends_on_its_beginning_alone(name, text, more):
    identifier = choose("clozeline.pipeline.clean.languages", name).build()
    language, score = identifier.identify(text)
    assert language == UNDECIDED or 2 <= len(language) <= 3
    assert 0 <= score <= 1
    assert identifier.identify(text) == (language, score)
    start = (text + "x" * 2000)[:2000]
    assert identifier.identify(start + more) == identifier.identify(start)


@pytest.mark.parametrize("name", NAMES)
def test_options_are_those_of_every_identifier(name):
    kind = find("clozeline.pipeline.clean.languages", name)
    assert isinstance(kind.VERSION, int)
    options = choose("clozeline.pipeline.clean.languages", name).options
    assert (options.keep, options.threshold) == ([], 0.65)


def test_long_texts_need_a_higher_score():
    options = choose("clozeline.pipeline.clean.languages", {"name": "py3langid", "thresholds": {"af": 0.5}}).options
    scores = [options.least_score("en", characters) for characters in (0, 100, 200, 300, 5000)]
    assert scores == pytest.approx([0.65, 0.65, 0.775, 0.9, 0.9])
    assert options.least_score("af", 5000) == 0.5
    strict = choose("clozeline.pipeline.clean.languages", {"name": "py3langid", "threshold": 0.95}).options
    assert strict.least_score("en", 5000) == 0.95
