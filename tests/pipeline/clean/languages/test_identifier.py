"""Promises of every language identifier."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.clean.language_step import LanguageStep
from clozeline.pipeline.clean.languages import UNDECIDED, sample_text
from clozeline.pipeline.clean.unit_counts import UnitCounts
from clozeline.pipeline.registries import LANGUAGES
from tests.contracts import contract
from tests.declarations import declared

OPTIONS = {
    name: declared("clozeline.pipeline.clean.languages", name, "options_in", lambda _: {})(None)
    for name in LANGUAGES.available()
}
"""Options that test files declare, imported here: a test file has properties of its own, which
Hypothesis refuses within one."""


def chosen(name):
    return LANGUAGES.resolve({"name": name, **OPTIONS[name]})


@contract(LANGUAGES)
@settings(max_examples=25)
@given(text=st.text(max_size=60), more=st.text(max_size=20))
def test_any_text_has_an_answer_that_depends_on_eight_pieces_alone(name, text, more):
    identifier = chosen(name).build()
    language, score = identifier.identify(text)

    assert language in {UNDECIDED, *identifier.languages()}
    assert 0 <= score <= 1
    assert identifier.identify(text) == (language, score)

    read = (text + "x " * 150)[:300]
    other = "y" * 700
    unread = (more + other)[:700]
    answers = {identifier.identify(gap.join([read] * 8)) for gap in (unread, other)}

    assert len(answers) == 1


@given(text=st.text("ab \n", min_size=0, max_size=9000))
def test_a_sample_is_bounded_and_keeps_words_whole(text):
    sample = sample_text(text)

    assert len(sample) <= 2000
    assert sample == text or len(text) > 2000

    blocks = " ".join(f"word{number}word" for number in range(2000))
    words = sample_text(blocks).split()

    assert set(words) <= set(blocks.split())
    assert {words[0], words[-1]} == {"word0word", "word1999word"}
    assert len(sample_text("漢" * 5000)) == 8 * 249 + 7


@given(st.lists(st.integers(500, 9000), min_size=2, max_size=4))
def test_each_part_of_a_text_has_its_share_of_the_sample(sizes):
    text = "".join(letter * size for letter, size in zip("abcd", sizes, strict=False))
    sample = sample_text(text)
    for letter, size in zip("abcd", sizes, strict=False):
        assert abs(sample.count(letter) / len(sample) - size / len(text)) < 0.15


def test_long_texts_need_a_higher_score():
    options = LANGUAGES.resolve({"name": "py3langid", "thresholds": {"af": 0.5}}).options
    scores = [options.minimum_score("en", characters) for characters in (0, 100, 200, 300, 5000)]

    assert [score for score, _ in scores] == pytest.approx([0.65, 0.65, 0.775, 0.9, 0.9])

    keys = [
        "threshold",
        "threshold",
        "threshold and long_threshold",
        "long_threshold",
        "long_threshold",
    ]

    assert [key for _, key in scores] == keys
    assert options.minimum_score("af", 5000) == (0.5, "thresholds.af")

    strict = LANGUAGES.resolve({"name": "py3langid", "threshold": 0.95}).options

    assert strict.minimum_score("en", 5000) == (0.95, "threshold")


@pytest.mark.parametrize(
    ("keep", "language", "score", "wanted"),
    [
        ([], "de", 0.1, ("", "")),
        (["en", "de"], "de", 0.65, ("", "")),
        (["en", "de"], "de", 0.6494, ("language_score", "de 0.649 < 0.650 by threshold")),
        (["en"], "de", 0.99, ("language", "de")),
    ],
)
def test_a_text_stays_by_its_language_and_then_its_score(keep, language, score, wanted):
    options = LANGUAGES.resolve({"name": "py3langid", "keep": keep}).options
    told = SimpleNamespace(
        identify=lambda text: (language, score), languages=lambda: frozenset({"en", "de"})
    )
    rule = LanguageStep(SimpleNamespace(options=options, build=lambda: told), UnitCounts(0, 0.0))
    assert rule.judge("ein Text") == (language, score, *wanted)
