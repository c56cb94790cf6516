"""Classes and numbers that are written, by the metrics of scikit-learn and SciPy directly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.tasks.task_rows import record_bytes
from clozeline.tools.runs.evaluation.generation_scores import text_scores
from tests.pipeline.tasks.readers.reading import reader_of
from tests.shard_sets import fixed


def labelled_rows(targets: list[str]) -> Rows:
    records = [{"source": f"text {number}", "targets": [target]} for number, target in enumerate(targets)]
    columns = {"record": Ragged.from_lists([record_bytes(one) for one in records], np.uint8)}
    return Rows(fixed(np.arange(len(records))), columns)


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
    scored = text_scores(facts, rows, rows, dict(enumerate(outputs)))
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
    scored = text_scores(facts, labelled_rows(golds), labelled_rows(golds), dict(enumerate(outputs)))
    answers, found = [float(gold) for gold in golds], [0.2, 1.0, 3.0, 0.0, 4.6, 0.0]
    assert scored.metrics == pytest.approx(
        {"pearson": stats.pearsonr(answers, found)[0], "spearman": stats.spearmanr(answers, found)[0]}
    )
    assert scored.unparsable == 2
    assert scored.metrics.keys() == set(reader_of("glue", task="stsb").facts.metrics)
