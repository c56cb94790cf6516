import math

from clozeline.pipeline.clean.filters.fineweb_quality import FinewebQuality
from clozeline.tools.start.contracts.filters import judge_text
from tests.pipeline.clean.filters.documents import documents
from tests.pipeline.text.tokens import word_tokens

PLAIN = "This line of the text has more than thirty characters."
CASES = {
    "line_punct_ratio": "\n".join(
        f"The heading of section {number} without a full stop" for number in range(9)
    ),
    "short_line_ratio": "Short.\nAlso short.\nShort again.",
    "char_dup_ratio": f"{PLAIN}\n{PLAIN}",
    "list_ratio": "\n".join(f"{chr(97 + n) * 31}." for n in range(9)),
}


def judge(text, **options):
    return judge_text(FinewebQuality(FinewebQuality.Options(**options)), text).reason


def test_marks_of_other_scripts_end_a_line():
    assert judge(PLAIN.replace(".", "।")) == ""
    assert judge(PLAIN.replace(".", "।"), stop_chars=".") == "line_punct_ratio"


def test_a_closing_quote_counts_if_it_is_named():
    quoted = PLAIN.replace(".", ".”")
    assert judge(quoted) == "line_punct_ratio"
    assert judge(quoted, stop_chars=".”") == ""
    assert judge(quoted, stop_chars="]-^”") == "", "the marks are no pattern"
    assert judge(quoted, stop_chars="") == "line_punct_ratio"


def measure(text, short):
    """Return the measure of each rule, by plain loops."""
    lines = [line for line in text.split("\n") if line.strip()]
    copies = [line for position, line in enumerate(lines) if line in lines[:position]]
    return {
        "line_punct_ratio": sum(line[-1] in ".?!。" for line in lines) / len(lines),
        "short_line_ratio": sum(len(line) <= short for line in lines) / len(lines),
        "char_dup_ratio": len("".join(copies)) / len(text.replace("\n", "")),
        "list_ratio": text.count("\n") / len(word_tokens(text)),
    }


OPTIONS = {
    "line_punct_ratio": "line_punct_thr",
    "short_line_ratio": "short_line_thr",
    "char_dup_ratio": "char_duplicates_ratio",
    "list_ratio": "new_line_ratio",
}


def test_a_measure_at_its_threshold_is_kept_and_one_beyond_it_is_not():
    seen = set()

    for text in documents(60, seed=9):
        found = measure(text, 30)
        at = {name: found[reason] for reason, name in OPTIONS.items()}

        assert judge(text, **at) == ""

        for reason, name in OPTIONS.items():
            beyond = math.nextafter(at[name], 2 if name == "line_punct_thr" else 0)
            if 0 <= beyond <= 1 and beyond != at[name]:
                assert judge(text, **{**at, name: beyond}) == reason
                seen.add(reason)

    assert seen == set(OPTIONS)
