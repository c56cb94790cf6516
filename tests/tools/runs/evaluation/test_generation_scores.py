"""Scores of texts against the libraries' own calls, written out, and cases by hand."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu import corpus_bleu, corpus_chrf

import clozeline.tools.runs.evaluation.generation_scores
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.pipeline.tasks.task_rows import record_bytes
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.tools.runs.evaluation.generation_scores import decode_text, text_metrics, text_scores
from tests.pipeline.task_files import write_vocabulary
from tests.shard_sets import fixed

ALL = ("exact_match", "bleu", "chrf", "rouge1", "rouge2", "rougeL", "rougeLsum")
FACTS = TaskFacts(name="toy", head="lm", metrics=ALL)
TEXTS = ["The cat sat on the mat near us.", "One two three four five."]
GOLDS = [["A cat sat on the mat near us.", "The cat was there."], ["One two three four six."]]


def test_examples() -> None:
    assert not doctest.testmod(clozeline.tools.runs.evaluation.generation_scores).failed


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


def test_the_signature_names_the_tokenizer() -> None:
    records = [{"source": "x", "targets": ["我们喜欢小狗和猫。"]}]
    rows = Rows(fixed(np.arange(1)), {"record": Ragged.from_lists([record_bytes(one) for one in records], np.uint8)})
    scored = text_scores(TaskFacts(name="toy", head="lm", metrics=("bleu",)), rows, rows, {0: "我们"}, "und")
    assert "tok:zh" in scored.signatures["bleu"]


def test_special_tokens_are_no_part_of_a_text(tmp_path: Path) -> None:
    tokenizer = import_tokenizer(write_vocabulary(tmp_path / "words"), tmp_path / "ours")
    assert decode_text(tokenizer, [2, 5, 6, 0, 3]) == tokenizer.decode([5, 6]).strip()


def test_baselines() -> None:
    records = [
        {"source": "One. Two. Three. Four.", "targets": ["One. Two. Three."]}, {"source": "same", "targets": ["same"]},
        {"source": "x", "targets": ["same", "x"]},
    ]  # fmt: skip
    rows = Rows(fixed(np.arange(3)), {"record": Ragged.from_lists([record_bytes(one) for one in records], np.uint8)})
    facts = TaskFacts(name="toy", head="lm", metrics=("exact_match",))
    scored = text_scores(facts, rows, rows, {0: "", 1: "same", 2: "y"})
    assert scored.metrics == {"exact_match": 1 / 3}
    assert {name: found["exact_match"] for name, found in scored.baselines.items()} == {
        "copy": 2 / 3, "lead_3": 1.0, "majority": 2 / 3,
    }  # fmt: skip
