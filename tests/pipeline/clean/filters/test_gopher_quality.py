import re
from typing import Any

import pytest

from clozeline.pipeline.clean.filters import KEEP, Verdict
from clozeline.pipeline.clean.filters.gopher_quality import GopherQuality
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.pipeline.text.word_tokens import word_tokens
from clozeline.registry import choose
from tests.pipeline.clean.filters.documents import documents


def test_stop_words_go_by_language():
    german = "Haus Garten Fluss Abend Kirche Stadt Musik Brot Markt Licht " * 6
    judge = choose("clozeline.pipeline.clean.filters", "gopher_quality").build().judge
    assert judge(TextStatistics(german.strip()), "de").reason == "gopher_enough_stop_words"
    assert judge(TextStatistics(german.strip() + " der die"), "de") == KEEP
    assert judge(TextStatistics(german.strip()), "und") == Verdict(note="stop_words_unavailable")


NEWS = {
    "en": """LONDON (AP) — "We lost, we lost again, and it hurt," said the coach (54), "but that's football." Shares of
        the club fell 3.4%; the rivals' rose ("a good day", as the "FT" put it). On Sunday, they play "United":
        tickets, sold since May, cost $20; for children, students, and soldiers, $5. "Who comes, comes," he said;
        "that's it." """,
    "de": """BERLIN (dpa) – „Wir haben verloren, schon wieder, und es tut weh“, sagte der Trainer (54), „so ist das.“
        Die Aktie fiel um 3,4 Prozent; die des Gegners stieg („ein guter Tag“, so die „FAZ“). Am Sonntag, um
        19.30 Uhr, spielt man gegen „Union“: Karten, seit Mai im Verkauf, kosten 20 Euro; für Kinder, Schüler,
        Soldaten: 5 Euro. „Wer kommt, der kommt“, sagte er; „wer nicht, der nicht.“""",
}


@pytest.mark.parametrize("language", NEWS)
def test_marks_of_a_news_text_are_no_words(language: str) -> None:
    """Quotes, numbers and brackets of the press: kept by the paper's rule, rejected where marks are words."""
    statistics = TextStatistics(" ".join(NEWS[language].split()))
    assert choose("clozeline.pipeline.clean.filters", "gopher_quality").build().judge(statistics, language) == KEEP
    marks = choose("clozeline.pipeline.clean.filters", {"name": "gopher_quality", "letter_words": "tokens"}).build()
    assert marks.judge(statistics, language).reason == "gopher_below_alpha_threshold"


def failing(text: str, options: GopherQuality.Options) -> list[str]:
    """All rules that a text breaks, each from its own words in the paper's table."""
    tokens = word_tokens(text)
    words = [token for token in tokens if any(character.isalnum() for character in token)]
    spaced = text.split() if options.letter_words == "spaces" else tokens
    lines = text.split("\n")
    length = sum(map(len, words)) / max(1, len(words))
    broken = {
        "gopher_short_doc": len(words) < options.words[0],
        "gopher_long_doc": len(words) > options.words[1],
        "gopher_below_avg_threshold": length < options.mean_word_length[0],
        "gopher_above_avg_threshold": length > options.mean_word_length[1],
        "gopher_too_many_hashes": text.count("#") > options.symbols_per_word * len(tokens),
        "gopher_too_many_ellipsis": len(re.findall(r"\.\.\.|…", text)) > options.symbols_per_word * len(tokens),
        "gopher_too_many_bullets": len(re.findall(r"(?m)^\s*[•-]", text)) > options.bullet_lines * len(lines),
        "gopher_too_many_end_ellipsis": len(re.findall(r"(?m)(?:\.\.\.|…)$", text))
        > options.ellipsis_lines * len(lines),
        "gopher_below_alpha_threshold": sum(any(c.isalpha() for c in word) for word in spaced)
        < options.tokens_with_letter * len(spaced),
        "gopher_enough_stop_words": len({"the", "be", "to", "of", "and", "that", "have", "with"} & set(tokens))
        < options.stop_words,
    }
    return [reason for reason, is_broken in broken.items() if is_broken]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"words": (5, 120), "stop_words": 5, "mean_word_length": (3.9, 4.6)},
        {"symbols_per_word": 0.01, "words": (0, 10**6)},
        {"tokens_with_letter": 0.9, "letter_words": "tokens", "words": (0, 10**6)},
        {"ellipsis_lines": 0.05, "bullet_lines": 0.01, "tokens_with_letter": 0.95, "words": (0, 10**6)},
    ],
)
def test_the_first_rule_that_fails_is_the_reason(changes: dict[str, Any]) -> None:
    options = GopherQuality.Options(**changes)
    judge, found = GopherQuality(options).judge, set()
    for text in documents(200, seed=4):
        broken = failing(text, options)
        verdict = judge(TextStatistics(text), "en")
        assert verdict.reason == (broken[0] if broken else ""), text
        found.add(verdict.reason)
    assert len(found) >= 4
