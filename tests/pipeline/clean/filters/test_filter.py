"""One small document for every reason of every filter."""

import pytest

from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.registry import choose, find, names
from tests.declarations import declared
from tests.pipeline.captures import SENTENCES

PROSE = SENTENCES.strip()
AT_THRESHOLDS = ("gopher_quality", "gopher_repetition")
"""Filters whose own tests hold each reason at its threshold."""
NAMES = names("clozeline.pipeline.clean.filters")
CASES = {name: declared("clozeline.pipeline.clean.filters", name, "CASES", {}) for name in NAMES}


def required(name, folder):
    """A filter with the options that it cannot do without, such as a file written into the folder."""
    return {"name": name, **declared("clozeline.pipeline.clean.filters", name, "options_in", lambda _: {})(folder)}


@pytest.mark.parametrize(("name", "reason"), [(name, reason) for name, cases in CASES.items() for reason in cases])
def test_a_minimal_document(name, reason, tmp_path):
    chosen = choose("clozeline.pipeline.clean.filters", required(name, tmp_path))
    built, case = chosen.build(), CASES[name][reason].strip()
    if hasattr(built, "judge_url"):
        assert built.judge_url(case).reason == reason
    else:
        assert built.judge(TextStatistics(case), "en").reason == reason


@pytest.mark.parametrize("name", NAMES)
def test_a_filter_keeps_the_contract(name, tmp_path):
    kind = find("clozeline.pipeline.clean.filters", name)
    assert isinstance(kind.VERSION, int)
    assert name in AT_THRESHOLDS or set(CASES[name]) == set(kind.reasons), (
        f"tests/pipeline/clean/filters/test_{name}.py: declare CASES, which maps each of {sorted(kind.reasons)} "
        f"to a minimal document that is rejected for this reason; found {sorted(CASES[name])}"
    )
    judge = choose("clozeline.pipeline.clean.filters", required(name, tmp_path)).build().judge
    statistics = TextStatistics(PROSE)
    assert judge(statistics, "en").reason == ""
    assert judge(TextStatistics(PROSE), "en") == judge(statistics, "en")
    judge(TextStatistics(""), "und")
