"""One small document for every reason of every filter."""

import re
import textwrap
from operator import itemgetter

import pytest

from clozeline.pipeline.clean.filters import ThresholdFilter
from clozeline.pipeline.registries import FILTERS
from clozeline.pipeline.text.normal_form import normalize
from clozeline.tools.start.contracts.filters import CHECKS, judge_text, prepare
from tests.contracts import cases_about, contract
from tests.declarations import declared
from tests.pipeline.captures import SENTENCES

PROSE = SENTENCES.strip()
AT_THRESHOLDS = ("gopher_quality", "gopher_repetition")
"""Filters whose own tests hold each reason at its threshold."""
NAMES = FILTERS.available()
CASES = {name: declared("clozeline.pipeline.clean.filters", name, "CASES", {}) for name in NAMES}


def required(name, folder):
    """A filter with the options that it cannot do without, such as a file written into the
    folder."""
    return {
        "name": name,
        **declared("clozeline.pipeline.clean.filters", name, "options_in", lambda _: {})(folder),
    }


@pytest.mark.parametrize(
    ("name", "reason"),
    cases_about(
        FILTERS,
        [(name, reason) for name, cases in CASES.items() for reason in cases],
        itemgetter(0),
    ),
)
def test_a_minimal_document(name, reason, tmp_path):
    chosen = FILTERS.resolve(required(name, tmp_path))
    built = chosen.build()
    case = CASES[name][reason].strip()
    read = {"url": case} if built.before_extraction else {"text": case}
    assert judge_text(built, **{"text": "", **read}).reason == reason


def loosened(value):
    """Return the value of a threshold that nothing fails."""
    if isinstance(value, dict):
        return {}
    if isinstance(value, (tuple, list)):
        return [0, 10**9]
    return [0, 1]  # a minimum or a maximum: one of both


ODD = [
    PROSE,
    "spam " * 400,
    "a\n" * 400,
    "# " * 90,
    "... " * 90,
    "- one two three\n" * 60,
    "word " * 60,
    "a b " * 60,
    "x" * 20 + " y" * 60,
    " ".join(map(str, range(99))),
    "the cat and the dog of that house\n" * 60,
    "".join(f"line {number} of that list...\n" for number in range(60)),
    "one two\n\n" * 40,
    "".join(f"x{number} the\n" for number in range(90)),
    "".join(f"the {n} of {n} is it.\n\n" for n in range(40)),
    "supercalifragilistic " * 99,
    " ".join(f"{n} ways to go" for n in range(40)) * 2,
]


@contract(FILTERS, only=lambda name: issubclass(FILTERS.load_class(name), ThresholdFilter))
def test_the_named_key_is_the_one_that_decides(name, tmp_path):
    """With that option loosened, a text is not rejected for the reason any more."""
    options = required(name, tmp_path)
    seen = set()

    for text in [*ODD, *CASES[name].values()]:
        verdict = judge_text(prepare(options).build(), text.strip())
        if not verdict.reason:
            continue
        seen.add(verdict.reason)
        key = FILTERS.load_class(name).thresholds[verdict.reason]
        value = loosened(getattr(prepare(options).options, key))
        choices = [value] if not isinstance(value, list) or value == [0, 10**9] else value
        verdicts = [
            judge_text(prepare({**options, key: choice}).build(), text.strip())
            for choice in choices
        ]

        assert any(other.reason != verdict.reason for other in verdicts), (verdict.reason, key)

    assert seen
    assert set(FILTERS.load_class(name).thresholds) == set(FILTERS.load_class(name).reasons)


@contract(FILTERS)
def test_a_filter_keeps_the_contract(name, tmp_path):
    case = prepare(required(name, tmp_path))
    for check in CHECKS:
        check(case)
    reasons = case.type.reasons

    assert name in AT_THRESHOLDS or set(CASES[name]) == set(reasons), (
        f"tests/pipeline/clean/filters/test_{name}.py: declare CASES, which maps each of "
        f"{sorted(reasons)} to a minimal document that is rejected for this reason; found "
        f"{sorted(CASES[name])}"
    )
    assert judge_text(case.build(), PROSE).reason == ""

    judge_text(case.build(), "", "und")


WRAPPED = "\n".join(
    [
        *textwrap.wrap(PROSE, 60),
        "7",
        "",
        "They came back (see [1]) to",
        "192.0.2.1 or a@example.org now.",
        "",
    ]
    * 4
)


@pytest.mark.parametrize("name", NAMES)
def test_a_filter_that_edits_keeps_the_line_ends_of_others(name, tmp_path):
    """What is judged as one line is stored as it was: words on two lines stay on two lines."""
    built = FILTERS.resolve(required(name, tmp_path)).build()
    if built.before_extraction:
        return
    text = normalize(WRAPPED)
    edited = judge_text(built, text).text or text
    last, first = zip(*re.findall(r"(\S+)\n(?=(\S+))", text), strict=True)

    joined = re.findall(r"(\S+) (?=(\S+))", edited)
    apart = set(zip(last, first, strict=True)) - set(re.findall(r"(\S+) (?=(\S+))", text))
    assert apart.isdisjoint(joined)
