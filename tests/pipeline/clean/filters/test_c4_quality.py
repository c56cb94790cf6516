import re
from typing import ClassVar

import pytest

from clozeline.configuration.config import config_file
from clozeline.pipeline.clean.filters import KEEP
from clozeline.pipeline.clean.filters.c4_quality import C4Quality
from clozeline.pipeline.recipe import load_recipe
from clozeline.pipeline.text.text_statistics import TextStatistics
from tests.pipeline.captures import SENTENCES
from tests.pipeline.clean.filters.documents import documents

CASES = {
    "lorem_ipsum": SENTENCES + "There is Lorem Ipsum here.",
    "curly_bracket": SENTENCES + "There is a { in here.",
    "too_few_sentences": "One is not enough. Two are not either.",
}


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

    def test_blanks_at_the_edges_of_a_line_are_no_citation(self):
        for citations in (False, True):
            verdict = self.edit(f"    {self.WANTED}", citations=citations)
            assert verdict.removed == {"blank": 4}

    def test_a_line_and_a_page_at_the_limits_are_kept_and_one_beyond_is_not(self):
        assert self.edit("Three are enough.") == KEEP
        assert self.edit("Three are enough.", words_per_line=4).removed == {"few_words": 18}
        assert self.edit("Now " + "x" * 1000 + " is long.") == KEEP
        assert self.edit("Now " + "x" * 1000 + " is long.", word_chars=999).removed == {"long_word": 1014}
        page = TextStatistics("This is a sentence. And here is another one.\nThe third one is here.")
        for sentences, reason in ((3, ""), (4, "too_few_sentences")):
            assert C4Quality(C4Quality.Options(sentences=sentences)).judge(page, "en").reason == reason
        five = " ".join(["This is a sentence."] * 5)
        assert C4Quality(C4Quality.Options()).judge(TextStatistics(five), "en") == KEEP


def test_kept_lines_are_lines_of_the_text_without_citations():
    judge = C4Quality(C4Quality.Options(sentences=1)).judge
    edited = 0
    for text in documents(150, seed=8):
        verdict = judge(TextStatistics(text), "en")
        if verdict.text is None:
            continue
        edited += 1
        plain = [re.sub(r"\[\d*]|\[edit]|\[citation needed]", "", line.strip()).strip() for line in text.split("\n")]
        kept = [line.strip() for line in verdict.text.split("\n") if line.strip()]
        places = iter(plain)
        assert all(line in places for line in kept), "an ordered part of the lines"
        for line in kept:
            assert line.endswith((".", "?", "!", '"', "'", "”", "’"))
            assert not line.endswith("...")
            assert len(line.split()) >= 2
            assert "javascript" not in line.lower()
            assert "cookies" not in line.lower()
        assert sum(verdict.removed.values()) == len(text) - len(verdict.text)
        again = judge(TextStatistics(verdict.text), "en")
        assert again.reason or again == KEEP, "editing twice changes nothing"
    assert edited > 50


def test_the_recipe_of_the_demo_leaves_code_as_it_is():
    """Its pages are Python's reference: empty lists and lists of one number are code there, not citations."""
    recipe = load_recipe(config_file("recipe:demo", "pipeline.yaml"), ["input=x", "output=y"])
    (chosen,) = [one for one in recipe.config_of("clean").filters if one.name == "c4_quality"]
    code = "lists = [[] for i in range(3)]\nThe three lists are then [[3], [5], [7]] in this case."
    text = f"This is one sentence. This is another one. And here is the third.\n{code}"
    assert chosen.build().judge(TextStatistics(text), "en") == KEEP
    edited = C4Quality(C4Quality.Options(sentences=1, terminal_punctuation=False)).judge(TextStatistics(text), "en")
    assert edited.text is not None
    assert "[, , ]" in edited.text
    assert edited.removed["citation"] == len("[]" + "[3]" + "[5]" + "[7]")
