from typing import Any

import pytest

from clozeline.pipeline.clean.filters.fineweb_quality import FinewebQuality
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.pipeline.text.word_tokens import word_tokens
from tests.pipeline.clean.filters.documents import documents

PLAIN = "This line of the text has more than thirty characters."
CASES = {
    "line_punct_ratio": "\n".join(f"The heading of section {number} without a full stop" for number in range(9)),
    "short_line_ratio": "Short.\nAlso short.\nShort again.",
    "char_dup_ratio": f"{PLAIN}\n{PLAIN}",
    "list_ratio": "\n".join(f"{chr(97 + n) * 31}." for n in range(9)),
}


def judge(text: str, **options: Any) -> str:
    return FinewebQuality(FinewebQuality.Options(**options)).judge(TextStatistics(text), "en").reason


def test_the_worked_example():
    verdict = FinewebQuality(FinewebQuality.Options()).judge(TextStatistics("Home\nNews\nContact\nHelp"), "en")
    assert (verdict.reason, verdict.detail) == ("line_punct_ratio", "0.000 < 0.12")


def test_the_marks_that_end_a_line_are_the_peers_in_every_script():
    peer = pytest.importorskip("datatrove.utils.text").TERMINAL_PUNCTUATION
    ending = {chr(code) for code in range(33, 0x20000) if not judge(f"{PLAIN[:-1]}{chr(code)}")}
    assert ending == set(peer)
    assert judge(PLAIN.replace(".", "।"), stop_chars=".") == "line_punct_ratio"


def test_a_closing_quote_counts_if_it_is_named():
    quoted = PLAIN.replace(".", ".”")
    assert judge(quoted) == "line_punct_ratio"
    assert judge(quoted, stop_chars=".”") == ""
    assert judge(quoted, stop_chars="]-^”") == "", "the marks are no pattern"
    assert judge(quoted, stop_chars="") == "line_punct_ratio"


def failing(text: str, options: FinewebQuality.Options) -> list[str]:
    """Every rule that the text breaks, by plain loops, in the order of the rules."""
    lines = [line for line in text.split("\n") if line.strip()]
    copies = [line for position, line in enumerate(lines) if line in lines[:position]]
    ended = [line for line in lines if line[-1] in ".?!。"]
    short = [line for line in lines if len(line) <= options.short_line_length]
    broken = {
        "line_punct_ratio": len(ended) < options.line_punct_thr * len(lines),
        "short_line_ratio": len(short) > options.short_line_thr * len(lines),
        "char_dup_ratio": len("".join(copies)) > options.char_duplicates_ratio * len(text.replace("\n", "")),
        "list_ratio": text.count("\n") > options.new_line_ratio * len(word_tokens(text)),
    }
    return [reason for reason, is_broken in broken.items() if is_broken]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"char_duplicates_ratio": 1.0, "line_punct_thr": 0.5, "short_line_thr": 0.2},
        {"char_duplicates_ratio": 0.3, "new_line_ratio": 0.05, "short_line_length": 60},
    ],
)
def test_the_first_rule_that_fails_is_the_reason(changes: dict[str, Any]) -> None:
    options = FinewebQuality.Options(**changes)
    reasons = set()
    for text in documents(200, seed=4):
        broken = failing(text, options)
        assert judge(text, **changes) == (broken[0] if broken else ""), text
        reasons.add(broken[0] if broken else "")
    assert len(reasons) >= 3
