"""Time grows linearly with hostile texts, in every filter, splitter, function of texts and tokenizer.

Ratios of CPU time, never limits: ten times the text may take 25 times as long; a quadratic function takes 100 times.
"""

import pytest

from tests.pipeline.text.hostile import functions, growth, strings, tokenizers

_RULES = sorted(strings(1))
_FEW = ["a letter, then marks", "hyphen chain", "one long word", "repeated '.'", "repeated 'a@b.'", "repeated '{{a|'"]
_MOST = 25


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    return functions(tmp_path_factory.mktemp("lists"))


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    return tokenizers(tmp_path_factory.mktemp("tokenizers"))


@pytest.mark.parametrize("rule", _FEW)
def test_ten_times_the_text_takes_about_ten_times_as_long(rule, judged):
    assert {name: ratio for name, each in judged.items() if (ratio := growth(each, rule, 3_000)) >= _MOST} == {}


@pytest.mark.slow
@pytest.mark.parametrize("rule", _RULES)
def test_every_rule_up_to_300_kb(rule, judged, encoders):
    every = {**judged, **encoders}
    assert {name: ratio for name, each in every.items() if (ratio := growth(each, rule, 30_000)) >= _MOST} == {}


def test_a_quadratic_function_is_seen():
    def quadratic(text):
        return sum(text.count("ab", 0, end) for end in range(0, len(text), 4))

    assert growth(quadratic, "one long word", 3_000) >= _MOST
