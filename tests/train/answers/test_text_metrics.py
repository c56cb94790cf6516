"""Metrics of texts against the libraries' own calls, and words of scripts without spaces by tokenizers of the test."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu import corpus_bleu, corpus_chrf

from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.train.answers import _text_metrics
from clozeline.train.answers._text_metrics import text_metrics


def test_examples() -> None:
    assert not doctest.testmod(_text_metrics).failed


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


ALL = ("exact_match", "bleu", "chrf", "rouge1", "rouge2", "rougeL", "rougeLsum")
FACTS = TaskFacts(name="toy", head="lm", metrics=ALL)
TEXTS = ["The cat sat on the mat near us.", "One two three four five."]
GOLDS = [["A cat sat on the mat near us.", "The cat was there."], ["One two three four six."]]


def test_metrics_are_those_of_the_libraries() -> None:
    found = text_metrics(FACTS, TEXTS, GOLDS)
    references = [[gold[0] for gold in GOLDS], ["The cat was there.", None]]
    assert found["bleu"] == pytest.approx(corpus_bleu(TEXTS, references).score / 100)
    assert found["chrf"] == pytest.approx(corpus_chrf(TEXTS, references).score / 100)
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    for name in ("rouge1", "rouge2", "rougeL"):
        pairs = zip(TEXTS, GOLDS, strict=True)
        best = [max(scorer.score(gold, text)[name].fmeasure for gold in given) for text, given in pairs]
        assert found[name] == pytest.approx(np.mean(best))
    assert found["exact_match"] == 0


def test_exact_match_is_of_any_accepted_text() -> None:
    facts = TaskFacts(name="toy", head="lm", metrics=("exact_match",))
    assert text_metrics(facts, [" yes\n", "Yes", "no"], [["no", "yes"], ["yes"], ["no"]]) == {"exact_match": 2 / 3}


def test_sentences_in_another_order() -> None:
    facts = TaskFacts(name="toy", head="lm", metrics=("rougeL", "rougeLsum"))
    found = text_metrics(facts, ["The dog ran. A cat sat."], [["A cat sat. The dog ran."]])
    assert found["rougeLsum"] == 1.0
    assert found["rougeL"] == pytest.approx(0.5)


def test_rouge_of_other_scripts() -> None:
    facts = TaskFacts(name="toy", head="lm", metrics=("rouge1",))
    assert text_metrics(facts, ["кот сидел"], [["Кот спал"]]) == {"rouge1": 0.5}
    assert text_metrics(facts, ["हिंदी भाषा"], [["हिंदी बोली"]]) == {"rouge1": 0.5}
