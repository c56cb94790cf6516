"""Errors of a run: against scikit-learn's report, and rows that are wrong by hand."""

import json

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.tools.runs import evaluate
from clozeline.tools.runs.evaluation.error_analysis import answered_records, error_lines
from clozeline.tools.runs.evaluation.task_run import open_task_run, set_rows
from clozeline.train.answers.classification import Classification
from tests.pipeline.task_files import make_sets
from tests.tools.runs.test_predict import TASKS
from tests.train.written_runs import write_run_on

NAMES = ("a", "b", "c")


@pytest.mark.parametrize("several", [False, True])
def test_scores_by_class_against_scikit_learn(several):
    generator = np.random.Generator(np.random.PCG64(2))
    gold, guessed = generator.integers(0, 2, (2, 50, 3)) if several else generator.integers(0, 3, (2, 80))
    facts = TaskFacts(name="t", head="classification", labels=NAMES, metrics=(), multi_label=several)

    def named(row):
        return [NAMES[index] for index in np.flatnonzero(row)] if several else NAMES[row]

    records = [
        {"gold": named(one), "labels" if several else "label": named(two), "error": 0.0}
        for one, two in zip(gold, guessed, strict=True)
    ]
    lines = list(error_lines(Classification(facts), records))
    header = lines.index("Scores by class:") + 1
    found = [line.split() for line in lines[header + 1 : header + 4]]
    columns = precision_recall_fscore_support(gold, guessed)
    for name, row, expected in zip(NAMES, found, zip(*columns, strict=True), strict=True):
        assert row == [name, *(f"{value:.4f}" for value in expected[:3]), str(expected[3])]
    if not several:
        table = [list(map(int, line.split()[1:])) for line in lines[2:5]]
        assert table == confusion_matrix(gold, guessed).tolist()


def test_every_prediction_of_a_split_with_its_answer(tmp_path, capsys):
    """The accuracy of the score follows from the file."""
    manifest = make_sets(tmp_path) / "train" / "manifest.json"
    heads = {"classification": {"labels": ["0", "1"]}}
    write_run_on(tmp_path / "run", manifest, [3], 1, model__heads=heads, model__init={"std": 0.5})
    capsys.readouterr()
    words = [f"predictions={tmp_path / 'p.jsonl'}", "errors=true"]
    assert evaluate.main([str(tmp_path / "run"), *words, f"output={tmp_path / 's.json'}"]) == 0
    shown = capsys.readouterr().out
    records = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    right = [record["label"] == record["gold"] for record in records]
    assert json.loads((tmp_path / "s.json").read_text())["metrics"]["accuracy"] == pytest.approx(np.mean(right))
    assert [record["error"] == 0 for record in records] == right
    assert {record["texts"][0].split()[-1] + record["gold"] for record in records} == {"good1", "bad0"}
    assert f"Wrong: {len(right) - sum(right)} of {len(right)}, the worst" in shown
    assert evaluate.main([str(tmp_path / "run"), "perplexity=x.txt", "errors=true"]) == 64


@pytest.mark.parametrize("name", [name for name in TASKS if name != "classes"])
def test_every_head_has_errors(tmp_path, name):
    """An error is 0 where gold and prediction agree, and only there."""
    make, head, options = TASKS[name]
    family = {"model__family": "encoder_decoder"} if head == "lm" else {}
    manifest = make(tmp_path) / "train" / "manifest.json"
    write_run_on(tmp_path / "run", manifest, [3], 1, model__heads={head: options}, model__init={"std": 0.5}, **family)
    opened = open_task_run(tmp_path / "run", "dev")
    rows = set_rows(opened.shards)
    records = answered_records(opened, rows, opened.answer.predict(opened.task, rows))
    assert len(records) == len({record["uid"] for record in records}) > 0
    assert all(record["error"] >= 0 for record in records)
    assert any(record["error"] > 0 for record in records)
    key = {"tagging": "tags", "multiple_choice": "choice"}.get(head)
    if key:
        assert [record["error"] == 0 for record in records] == [record["gold"] == record[key] for record in records]
    assert ", the worst" in "\n".join(error_lines(opened.answer, records))
