"""One small document for every reason of every filter."""

import inspect

import pytest

from clozeline.pipeline.clean.filters import ThresholdFilter
from clozeline.pipeline.text.normal_form import normalize
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.registry import choose, find, names
from tests.declarations import declared
from tests.pipeline.captures import SENTENCES
from tests.pipeline.text.test_text_statistics import SHAPES

PROSE = SENTENCES.strip()
DIFFERENT = " ".join(f"word{number}" for number in range(200))


def quote(words: str, times: int) -> str:
    """The words this number of times among words that never repeat."""
    fresh = iter(f"w{number}" for number in range(10_000))
    return " ".join(f"{words} {next(fresh)} {next(fresh)}" for _ in range(times))


CASES = {
    "gopher_quality": {
        "gopher_short_doc": "Too short to be of use.",
        "gopher_long_doc": "word " * 100_001,
        "gopher_below_avg_threshold": "a bc " * 40,
        "gopher_above_avg_threshold": "internationalisation " * 60,
        "gopher_too_many_hashes": "the # word " * 40,
        "gopher_too_many_ellipsis": "the word ... and " * 40,
        "gopher_too_many_bullets": "- the word of\n" * 40,
        "gopher_too_many_end_ellipsis": "the word that is and goes to\nthe word that is and goes with it...\n" * 10,
        "gopher_below_alpha_threshold": "word 1234 the 5678 of " * 20,
        "gopher_enough_stop_words": "word " * 60,
    },
    "gopher_repetition": {
        "dup_para_frac": "\n\n".join(["one paragraph"] * 2 + ["another paragraph", DIFFERENT, "x"][:1]),
        "dup_para_char_frac": "\n\n".join([DIFFERENT[:200]] * 2 + list("abcdefgh")),
        "dup_line_frac": "\n".join(["one line", "one line", "another line"]),
        "dup_line_char_frac": "\n".join([DIFFERENT[:200]] * 2 + list("abcdefgh")),
        "top_2_gram": quote("same words", 20),
        "top_3_gram": quote("a b c", 20),
        "top_4_gram": quote("a b c d", 20),
        "duplicated_5_n_grams": quote("p q r s t", 2),
        "duplicated_6_n_grams": quote("p q r s t u", 2),
        "duplicated_7_n_grams": quote("p q r s t u v", 2),
        "duplicated_8_n_grams": quote("p q r s t u v w", 2),
        "duplicated_9_n_grams": quote("p q r s t u v w x", 2),
        "duplicated_10_n_grams": quote("p q r s t u v w x y", 2),
    },
    "c4_quality": {
        "lorem_ipsum": PROSE + "\nThere is Lorem Ipsum here.",
        "curly_bracket": PROSE + "\nThere is a { in here.",
        "too_few_sentences": "One is not enough. Two are not either.",
    },
}  # fmt: skip
CASES |= {
    name: cases
    for name in names("clozeline.pipeline.clean.filters")
    if name not in CASES and (cases := declared("clozeline.pipeline.clean.filters", name, "CASES", {}))
}
# Earlier rules would object first; the case must show the rule it is for.
LOOSE = {
    "top_3_gram": {"top_ngrams": {3: 0.18}},
    "top_4_gram": {"top_ngrams": {4: 0.16}},
    **{f"duplicated_{n}_n_grams": {"top_ngrams": {}, "duplicate_ngrams": {n: 0.1}} for n in range(5, 11)},
}


def required(name, folder):
    """A filter with the options that it cannot do without, such as a file written into the folder."""
    return {"name": name, **declared("clozeline.pipeline.clean.filters", name, "options_in", lambda _: {})(folder)}


@pytest.mark.parametrize(("name", "reason"), [(name, reason) for name, cases in CASES.items() for reason in cases])
def test_a_minimal_document(name, reason, tmp_path):
    chosen = choose("clozeline.pipeline.clean.filters", {**required(name, tmp_path), **LOOSE.get(reason, {})})
    built, case = chosen.build(), CASES[name][reason].strip()
    if hasattr(built, "judge_url"):
        assert built.judge_url(case).reason == reason
    else:
        assert built.judge(TextStatistics(case), "en").reason == reason


@pytest.mark.parametrize("name", names("clozeline.pipeline.clean.filters"))
def test_a_filter_keeps_the_contract(name, tmp_path):
    kind = find("clozeline.pipeline.clean.filters", name)
    assert isinstance(kind.VERSION, int)
    assert inspect.getdoc(kind)
    assert set(CASES.get(name, ())) == set(kind.reasons), (
        f"tests/pipeline/filters/test_{name}.py: declare CASES, which maps each of {sorted(kind.reasons)} "
        f"to a minimal document that is rejected for this reason; found {sorted(CASES.get(name, ()))}"
    )
    judge = choose("clozeline.pipeline.clean.filters", required(name, tmp_path)).build().judge
    statistics = TextStatistics(PROSE)
    assert judge(statistics, "en").reason == ""
    assert judge(TextStatistics(PROSE), "en") == judge(statistics, "en")
    judge(TextStatistics(""), "und")


@pytest.mark.parametrize("name", names("clozeline.pipeline.clean.filters"))
def test_work_grows_linearly(name, tmp_path):
    """All rules of a filter, on texts of a size and of twice that size."""
    built = choose("clozeline.pipeline.clean.filters", required(name, tmp_path)).build()
    for shape in SHAPES.values():
        visited = []
        for size in (2_000, 4_000):
            statistics = TextStatistics(normalize(shape(size)))
            built.judge(statistics, "en")
            if isinstance(built, ThresholdFilter):
                list(built.measure(statistics, "en"))
            visited.append(statistics.visited)
        assert visited[1] <= 2.1 * visited[0] + 50
