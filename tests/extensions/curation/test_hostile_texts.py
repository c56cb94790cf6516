"""What searches texts for repeats and items takes time in proportion to them."""

import pytest

from clozeline.extensions.curation.decontaminate.ngram_index import Matcher, build_index
from clozeline.extensions.curation.repeats import LinePieces
from tests.pipeline.text.test_hostile_texts import MOST, RULES, growth

INDEX = build_index([("0", ("w1 w2 w3 w4 w5 w6 w7", "a a a a a a a"))], 5)
LINES = LinePieces(max_documents=1, keep_first=False, within="all", units=1, min_letters=20)
FUNCTIONS = {
    "repeated lines": lambda text: list(LINES.digests(text, "en")),
    "contamination": Matcher(INDEX).find,
    "items": lambda text: build_index([("0", (text,))], 13),
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", sorted(RULES))
def test_twice_the_text_takes_about_twice_as_long(rule):
    grown = {name: growth(each, rule, 1 << 18) for name, each in FUNCTIONS.items()}
    assert {name: ratio for name, ratio in grown.items() if ratio > MOST} == {}
