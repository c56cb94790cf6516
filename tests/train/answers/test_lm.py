"""Scores of generated texts, and of classes and numbers that are written, by scikit-learn and SciPy directly."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.pipeline.tasks.task_rows import record_bytes
from clozeline.train.answers._answer import Scored
from clozeline.train.answers.lm import Lm
from tests.pipeline.tasks.readers.reading import reader_of
from tests.shard_sets import fixed


def rows_of(*targets: list[str]) -> Rows:
    records = [{"source": f"text {number}", "targets": accepted} for number, accepted in enumerate(targets)]
    columns = {"record": Ragged.from_lists([record_bytes(one) for one in records], np.uint8)}
    return Rows(fixed(np.arange(len(records))), columns)


def scored_by(facts: TaskFacts, rows: Rows, texts: Mapping[int, str]) -> Scored:
    task = SimpleNamespace(manifest=SimpleNamespace(languages=["und"]))
    return Lm(facts).score(task, rows, rows, texts)  # type: ignore[arg-type]


def labelled_rows(targets: list[str]) -> Rows:
    return rows_of(*([target] for target in targets))


def test_the_signature_names_the_tokenizer() -> None:
    facts = TaskFacts(name="toy", head="lm", metrics=("bleu",))
    assert "tok:zh" in scored_by(facts, labelled_rows(["我们喜欢小狗和猫。"]), {0: "我们"}).signatures["bleu"]


def test_any_accepted_text_is_right_and_the_most_frequent_first_one_is_the_baseline() -> None:
    facts = TaskFacts(name="toy", head="lm", metrics=("exact_match",))
    scored = scored_by(facts, rows_of(["one"], ["same"], ["same", "y"]), {0: "", 1: "same", 2: " y"})
    assert scored.metrics == {"exact_match": 2 / 3}
    assert scored.baselines == {"majority": {"exact_match": 2 / 3}}


WRITTEN = ["equivalent", "not_equivalent", "equivalent", "equivalent", "not_equivalent", "not_equivalent", "equivalent"]
READ = [" equivalent\n", "equivalent", "not_equivalent", "equivalent", "not_equivalent", "equivalentish", ""]


@pytest.mark.parametrize("task", ["cola", "mrpc", "qqp", "sst2", "rte", "mnli"])
def test_written_classes_have_the_metrics_of_glue(task: str) -> None:
    """An output that is no class is wrong, as in T5's code: of two classes the other one."""
    facts = reader_of("glue", as_text=True, task=task).facts
    golds = [facts.words[0 if gold.startswith("not") else 1] for gold in WRITTEN]
    outputs = [
        facts.words[0 if text.strip().startswith("not") else 1] if text.strip() in WRITTEN else text for text in READ
    ]
    rows = labelled_rows(golds)
    scored = scored_by(facts, rows, dict(enumerate(outputs)))
    answers = [facts.words.index(gold) for gold in golds]
    two = len(facts.words) == 2
    found = [
        facts.words.index(text) if text in facts.words else 1 - answer if two else -1
        for text, answer in zip(outputs, answers, strict=True)
    ]
    expected = {
        "accuracy": metrics.accuracy_score(answers, found), "f1": metrics.f1_score(answers, found) if two else None,
        "matthews_correlation": metrics.matthews_corrcoef(answers, found),
    }  # fmt: skip
    assert facts.metrics == reader_of("glue", task=task).facts.metrics
    assert scored.metrics == pytest.approx({name: expected[name] for name in facts.metrics})
    assert (scored.count, scored.unparsable) == (7, 2)
    assert set(scored.baselines) == {"majority"}


def test_written_numbers_have_the_metrics_of_glue() -> None:
    """An output that is no number from 0 to 5 is the lowest one."""
    facts = reader_of("glue", as_text=True, task="stsb").facts
    golds, outputs = ["0.0", "1.2", "2.4", "3.8", "5.0", "1.0"], ["0.2", " 1.0", "3.0", "four", "4.6", "1e9"]
    scored = scored_by(facts, labelled_rows(golds), dict(enumerate(outputs)))
    answers, found = [float(gold) for gold in golds], [0.2, 1.0, 3.0, 0.0, 4.6, 0.0]
    assert scored.metrics == pytest.approx(
        {"pearson": stats.pearsonr(answers, found)[0], "spearman": stats.spearmanr(answers, found)[0]}
    )
    assert scored.unparsable == 2
    assert scored.metrics.keys() == set(reader_of("glue", task="stsb").facts.metrics)
