from typing import ClassVar

import pytest

from clozeline.pipeline.clean.filters import KEEP
from clozeline.pipeline.clean.filters.c4_quality import C4Quality
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.tools.start.contracts.filters import judge_text
from tests.pipeline.captures import SENTENCES

CASES = {
    "lorem_ipsum": SENTENCES + "There is Lorem Ipsum here.",
    "curly_bracket": SENTENCES + "There is a { in here.",
    "fragments": "".join(
        f"The {number} sentence begins on this line\nand ends on the next one.\n"
        for number in range(6)
    ),
    "too_few_sentences": "One is not enough. Two are not either.",
}


WRAPPED = [
    f"The keeper of tower {word} told\neverybody at the long counter that\nthe lamp went out. Nobody of them"
    f"\nknew {word} before\nthe storm of that year.".split("\n")
    for word in ("one", "two", "three", "four", "five", "six")
]


@pytest.mark.parametrize(
    "form",
    ["{line}\n", "{n:3}  {line}", "LIGHT-{n:05} {line}", "[00:{n}] {line}", "| {line}", "# {line}"],
)
def test_shreds_of_wrapped_sentences_are_rejected(form):
    """Whatever stands before each line, and with empty lines between."""
    lines = [line for lines in WRAPPED for line in lines]
    text = "\n".join(form.format(n=n, line=line) for n, line in enumerate(lines, 10))
    assert judge_text(C4Quality(C4Quality.Options(sentences=1)), text).reason == "fragments"


class TestC4Quality:
    WANTED: ClassVar = "This is a line that is kept as it is."

    def edit(self, line, **options):
        step = C4Quality(C4Quality.Options(sentences=1, **options))
        return judge_text(step, f"{self.WANTED}\n{line}\n{self.WANTED}")

    @pytest.mark.parametrize(
        ("line", "rule", "option"),
        [
            (
                "A line without its full stop",
                "terminal_punctuation",
                {"terminal_punctuation": False},
            ),
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

    def test_blanks_at_the_edges_of_a_line_are_no_citation(self):
        for citations in (False, True):
            verdict = self.edit(f"    {self.WANTED}", citations=citations)
            assert verdict.removed == {"blank": 4}

    def test_a_line_and_a_page_at_the_limits_are_kept_and_one_beyond_is_not(self):
        assert self.edit("Three are enough.") == KEEP
        assert self.edit("Three are enough.", words_per_line=4).removed == {"few_words": 18}
        assert self.edit("Now " + "x" * 1000 + " is long.") == KEEP
        assert self.edit("Now " + "x" * 1000 + " is long.", word_chars=999).removed == {
            "long_word": 1014
        }

        page = TextStatistics(
            "This is a sentence. And here is another one.\nThe third one is here."
        )

        for sentences, reason in ((3, ""), (4, "too_few_sentences")):
            assert (
                judge_text(C4Quality(C4Quality.Options(sentences=sentences)), page.text).reason
                == reason
            )

        five = " ".join(["This is a sentence."] * 5)

        assert judge_text(C4Quality(C4Quality.Options()), five) == KEEP
