"""One small document for every reason of every filter."""

import pytest

from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.registry import choose, names
from clozeline.tools.start.contracts.filters import CHECKS, prepare
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
    case = prepare(required(name, tmp_path))
    for check in CHECKS:
        check(case)
    reasons = case.type.reasons
    assert name in AT_THRESHOLDS or set(CASES[name]) == set(reasons), (
        f"tests/pipeline/clean/filters/test_{name}.py: declare CASES, which maps each of {sorted(reasons)} "
        f"to a minimal document that is rejected for this reason; found {sorted(CASES[name])}"
    )
    assert case.build().judge(TextStatistics(PROSE), "en").reason == ""
    case.build().judge(TextStatistics(""), "und")
