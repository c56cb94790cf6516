"""Gopher's quality rules against the paper's table, at each threshold and away from it."""

import math
import re

import pytest

from clozeline.pipeline.clean.filters import KEEP, Verdict
from clozeline.pipeline.clean.filters.gopher_quality import GopherQuality
from clozeline.pipeline.registries import FILTERS
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.tools.start.contracts.filters import judge_text
from tests.pipeline.clean.filters.documents import documents
from tests.pipeline.text.tokens import word_tokens


def test_stop_words_go_by_language():
    german = "Haus Garten Fluss Abend Kirche Stadt Musik Brot Markt Licht " * 6
    step = FILTERS.resolve("gopher_quality").build()
    assert judge_text(step, german.strip(), "de").reason == "gopher_enough_stop_words"
    assert judge_text(step, german.strip() + " der die", "de") == KEEP
    assert judge_text(step, german.strip(), "und") == Verdict(note="stop_words_unavailable")


NEWS = """LONDON (AP) — "We lost, we lost again, and it hurt," said the coach (54), "but that's football." Shares of
    the club fell 3.4%; the rivals' rose ("a good day", as the "FT" put it). On Sunday, they play "United":
    tickets, sold since May, cost $20; for children, students, and soldiers, $5. "Who comes, comes," he said;
    "that's it." """


def test_marks_of_a_news_text_are_no_words():
    """Quotes, numbers and brackets of the press: kept by the paper's rule, not as words or as a
    list."""
    statistics = TextStatistics(" ".join(NEWS.split()))
    usual = FILTERS.resolve("gopher_quality").build()

    assert judge_text(usual, statistics.text) == KEEP
    assert judge_text(usual, "- " + NEWS.replace("\n", "\n- ")).reason == "gopher_too_many_bullets"

    marks = FILTERS.resolve({"name": "gopher_quality", "letter_words": "tokens"}).build()
    verdict = judge_text(marks, statistics.text)

    assert (verdict.reason, verdict.detail) == ("gopher_below_alpha_threshold", "0.528 < 0.8")


@pytest.mark.parametrize(
    "text",
    [
        "SHE AND HE WALKED ALONG THE LONG ROAD TO THE SEA " * 6,
        "| The port holds | the state of | a line | ===== " * 12,
        "Where gulls nest, 12 14 16 nobody walks 3 4 5 .",
        "« Où vas-tu ? » — « Quand ? » — « Qui ? » — " * 20,
        "从 2023 年起 ， 需要配置网络接口然后启动 ； 12 月重新加载配置文件 。 " * 20,
        "បន្ទាប់ពីការដំឡើង ។ សូមកំណត់ ។ " * 30,
        "བོད་ཡིག་ནི་བོད་མིའི ། སྐད་ཡིག ། " * 30,
    ],
)
def test_thresholds_are_for_words_of_pages_in_any_case_and_script(text):
    step = FILTERS.resolve(
        {"name": "gopher_quality", "words": [5, 9999], "mean_word_length": [1, 99]}
    ).build()
    assert judge_text(step, text.strip(), "en" if text.isascii() else "und").reason == ""


def measure(text, letter_words="spaces"):
    """Return the measure of each rule, from the words of the paper's table."""
    tokens = word_tokens(text)
    words = [token for token in tokens if any(character.isalnum() for character in token)]
    spaced = [word for word in text.split() if any(map(str.isalnum, word))]
    spaced = spaced if letter_words == "spaces" else tokens
    lines = text.split("\n")
    length = sum(map(len, words)) / max(1, len(words))
    return {
        "gopher_short_doc": len(words),
        "gopher_long_doc": len(words),
        "gopher_below_avg_threshold": length,
        "gopher_above_avg_threshold": length,
        "gopher_too_many_hashes": text.count("#") / len(tokens),
        "gopher_too_many_ellipsis": len(re.findall(r"(?:\.\.\.|…)+", text)) / len(tokens),
        "gopher_too_many_bullets": len(re.findall(r"(?m)^\s*[•-]", text)) / len(lines),
        "gopher_too_many_end_ellipsis": len(re.findall(r"(?m)(?:\.\.\.|…)$", text)) / len(lines),
        "gopher_below_alpha_threshold": sum(any(c.isalpha() for c in word) for word in spaced)
        / len(spaced),
        "gopher_enough_stop_words": len(
            {"the", "be", "to", "of", "and", "that", "have", "with"}
            & set(" ".join(tokens).lower().split())
        ),
    }


def test_a_measure_at_its_threshold_is_kept_and_one_beyond_it_is_not():
    seen = set()

    for text in [*documents(40, seed=5), "- one # of\n- the... two…\nto # be ..."]:
        found = measure(text)
        words = int(found["gopher_short_doc"])
        length = found["gopher_below_avg_threshold"]
        hashes = found["gopher_too_many_hashes"]
        ellipses = found["gopher_too_many_ellipsis"]
        at = {
            "words": (words, words),
            "mean_word_length": (length, length),
            "symbols_per_word": max(hashes, ellipses),
            "bullet_lines": found["gopher_too_many_bullets"],
            "ellipsis_lines": found["gopher_too_many_end_ellipsis"],
            "tokens_with_letter": found["gopher_below_alpha_threshold"],
            "stop_words": int(found["gopher_enough_stop_words"]),
        }

        longer = math.nextafter(length, 99)
        shorter = math.nextafter(length, 0)
        beyond = {
            "gopher_short_doc": {"words": (words + 1, words + 1)},
            "gopher_long_doc": {"words": (0, words - 1)},
            "gopher_below_avg_threshold": {"mean_word_length": (longer, longer)},
            "gopher_above_avg_threshold": {"mean_word_length": (0, shorter)},
            "gopher_too_many_hashes": {
                "symbols_per_word": math.nextafter(hashes, 0) if hashes else ellipses
            },
            "gopher_too_many_ellipsis": {
                "symbols_per_word": max(hashes, math.nextafter(ellipses, 0))
            },
            "gopher_too_many_bullets": {"bullet_lines": math.nextafter(at["bullet_lines"], 0)},
            "gopher_too_many_end_ellipsis": {
                "ellipsis_lines": math.nextafter(at["ellipsis_lines"], 0)
            },
            "gopher_below_alpha_threshold": {
                "tokens_with_letter": min(1, math.nextafter(at["tokens_with_letter"], 2))
            },
            "gopher_enough_stop_words": {"stop_words": at["stop_words"] + 1},
        }
        if words < 50:
            del beyond["gopher_below_alpha_threshold"], beyond["gopher_enough_stop_words"]

        assert judge_text(GopherQuality(GopherQuality.Options(**at)), text) == KEEP

        for reason, changes in beyond.items():
            options = GopherQuality.Options(**{**at, **changes})
            if changes != {name: at[name] for name in changes}:  # no share is below 0 or above 1
                assert judge_text(GopherQuality(options), text).reason == reason, (reason, text)
                seen.add(reason)

    assert seen == set(GopherQuality.reasons)
