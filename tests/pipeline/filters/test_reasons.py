"""One small document for every reason of every filter."""

import inspect
from typing import ClassVar

import pytest

from pipeline.filters import KEEP
from pipeline.filters.c4_quality import C4Quality
from pipeline.filters.gopher_repetition import GopherRepetition
from pipeline.registry import choose, find, names
from pipeline.text.text_statistics import TextStatistics
from tests.pipeline.captures import SENTENCES

PROSE = SENTENCES
DIFFERENT = " ".join(f"word{number}" for number in range(200))


def quote(words: str, times: int) -> str:
    """The words so many times among words that never repeat."""
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
# Earlier rules would object first; the case must show the rule it is for.
LOOSE = {
    "top_3_gram": {"top_ngrams": {3: 0.18}},
    "top_4_gram": {"top_ngrams": {4: 0.16}},
    **{f"duplicated_{n}_n_grams": {"top_ngrams": {}, "duplicate_ngrams": {n: 0.1}} for n in range(5, 11)},
}


@pytest.mark.parametrize(("name", "reason"), [(name, reason) for name, cases in CASES.items() for reason in cases])
def test_a_minimal_document(name, reason):
    chosen = choose("pipeline.filters", {"name": name, **LOOSE.get(reason, {})})
    verdict = chosen.build().judge(TextStatistics(CASES[name][reason].strip()), "en")
    assert verdict.reason == reason


@pytest.mark.parametrize("name", names("pipeline.filters"))
def test_a_filter_keeps_the_contract(name):
    kind = find("pipeline.filters", name)
    assert isinstance(kind.VERSION, int)
    assert inspect.getdoc(kind)
    assert set(CASES[name]) == set(kind.reasons)
    judge = choose("pipeline.filters", name).build().judge
    statistics = TextStatistics(PROSE)
    assert judge(statistics, "en").reason == ""
    assert judge(TextStatistics(PROSE), "en") == judge(statistics, "en")
    judge(TextStatistics(""), "und")


class TestC4Quality:
    WANTED: ClassVar = "This is a line that is kept as it is."

    def edit(self, line, **options):
        judge = C4Quality(C4Quality.Options(sentences=1, **options)).judge
        return judge(TextStatistics(f"{self.WANTED}\n{line}\n{self.WANTED}"), "en")

    @pytest.mark.parametrize(
        ("line", "rule", "option"),
        [
            ("A line without its full stop", "terminal_punctuation", {"terminal_punctuation": False}),
            ("This one trails away...", "terminal_punctuation", {"terminal_punctuation": False}),
            ("Too few.", "few_words", {"words_per_line": 2}),
            ("Now " + "x" * 1001 + " is long.", "long_word", {"word_chars": 2000}),
            ("You must enable JavaScript here.", "javascript", {"javascript": False}),
            ("Read our Privacy Policy before you go.", "policy", {"policy": False}),
        ],
    )
    def test_a_rule_drops_its_line_and_counts_it(self, line, rule, option):
        verdict = self.edit(line)
        assert verdict.text == f"{self.WANTED}\n{self.WANTED}"
        assert verdict.removed == {rule: len(line) + 1}
        assert self.edit(line, **option) == KEEP

    def test_citations_are_cut_out(self):
        verdict = self.edit("A line [citation needed] with a note [12] and [edit].")
        assert verdict.text.split("\n")[1] == "A line  with a note  and ."
        assert verdict.removed == {"citation": 27}

    def test_removed_characters_add_up(self):
        text = f"Home\n\n{self.WANTED}\n\nMenu\n\n\n  {self.WANTED} [1]\nEnd"
        verdict = C4Quality(C4Quality.Options(sentences=1)).judge(TextStatistics(text), "en")
        assert sum(verdict.removed.values()) == len(text) - len(verdict.text)

    def test_the_worked_example(self):
        judge = C4Quality(C4Quality.Options(sentences=1)).judge
        assert (
            judge(TextStatistics("Home\nThis is a sentence of a page."), "en").text == "This is a sentence of a page."
        )


def test_the_worked_example_of_repetition():
    text = ("the same words again " * 40).strip()
    assert len(text) == 839
    verdict = GopherRepetition(GopherRepetition.Options()).judge(TextStatistics(text), "en")
    assert (verdict.reason, verdict.detail) == ("top_2_gram", f"{320 / 839:.3f} > 0.2")


def test_stop_words_go_by_language():
    german = "Haus Garten Fluss Abend Kirche Stadt Musik Brot Markt Licht " * 6
    judge = choose("pipeline.filters", "gopher_quality").build().judge
    assert judge(TextStatistics(german.strip()), "de").reason == "gopher_enough_stop_words"
    assert judge(TextStatistics(german.strip() + " der die"), "de") == KEEP
    assert judge(TextStatistics(german.strip()), "und") == KEEP
