"""Words of scripts without spaces, against rouge_score and sacrebleu with tokenizers of the test's own."""

from __future__ import annotations

import doctest

import pytest
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu import corpus_bleu, corpus_chrf

import clozeline.tools.runs.evaluation.text_words
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.tools.runs.evaluation.generation_scores import text_metrics


def test_examples() -> None:
    assert not doctest.testmod(clozeline.tools.runs.evaluation.text_words).failed


class Characters:
    """Words that the test cuts itself: each character of the cases below, without spaces and marks."""

    def tokenize(self, text: str) -> list[str]:
        return [character for character in text if character not in " 。"]


UNSPACED = {
    "zh": ("我们喜欢小猫。", "我们喜欢小狗和猫。"),
    "ja": ("ねこが好きです", "いぬが好きです"),
    "lo": ("ລາວສວຍງາມ", "ລາວສວຍດ"),
    "km": ("ខមរភសនង", "ខមរភសក"),
}


@pytest.mark.parametrize("language", UNSPACED)
@pytest.mark.parametrize("metric", ["rouge1", "rouge2", "rougeL"])
def test_characters_are_words_where_no_spaces_are(language: str, metric: str) -> None:
    found, gold = UNSPACED[language]
    facts = TaskFacts(name="toy", head="lm", metrics=(metric,))
    expected = RougeScorer([metric], tokenizer=Characters()).score(gold, found)[metric].fmeasure
    assert 0 < expected < 1
    assert text_metrics(facts, [found], [[gold]])[metric] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("language", "tokenize"), [("zh", "zh"), ("ja", "char"), ("lo", "char"), ("km", "char"), ("th", "char")]
)
@pytest.mark.parametrize("named", [True, False])
def test_bleu_by_language_or_script(language: str, tokenize: str, named: bool) -> None:
    """Of a set without a language the script of its targets decides."""
    found, gold = UNSPACED.get(language, ("แมวนอนหลับ", "แมวนอนอยู่"))
    facts = TaskFacts(name="toy", head="lm", metrics=("bleu", "chrf"))
    scores = text_metrics(facts, [found], [[gold]], language if named else "und")
    assert scores["bleu"] == pytest.approx(corpus_bleu([found], [[gold]], tokenize=tokenize).score / 100)
    assert scores["bleu"] > corpus_bleu([found], [[gold]]).score / 100
    assert scores["chrf"] == pytest.approx(corpus_chrf([found], [[gold]]).score / 100)
