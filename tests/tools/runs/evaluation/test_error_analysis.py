"""Errors of a run: against scikit-learn's report, and rows that are wrong by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from clozeline.pipeline.tasks.readers import TaskFacts
from clozeline.tools.runs import evaluate
from clozeline.tools.runs.evaluation.error_analysis import (
    answered_records,
    class_pairs,
    class_scores,
    error_lines,
    worst_rows,
)
from clozeline.tools.runs.evaluation.predictions import set_rows
from clozeline.tools.runs.evaluation.task_run import open_task_run
from tests.pipeline.task_files import make_sets
from tests.tools.runs.test_predict import TASKS
from tests.train.written_runs import write_run_on

NAMES = ("a", "b", "c")
FACTS = TaskFacts(name="t", head="classification", labels=NAMES, metrics=())
SEVERAL = TaskFacts(name="t", head="classification", labels=NAMES, metrics=(), multi_label=True)


def test_classes_against_scikit_learn() -> None:
    generator = np.random.Generator(np.random.PCG64(1))
    gold, guessed = generator.integers(0, 3, (2, 80))
    records: list[dict[str, Any]] = [
        {"gold": NAMES[one], "label": NAMES[two], "error": float(one != two), "texts": ["x"]}
        for one, two in zip(gold, guessed, strict=True)
    ]
    pairs = class_pairs(FACTS, records)
    assert [[pairs[one, two] for two in NAMES] for one in NAMES] == confusion_matrix(gold, guessed).tolist()
    columns = zip(*precision_recall_fscore_support(gold, guessed), strict=True)
    assert [*class_scores(FACTS, records).values()] == [pytest.approx(row) for row in columns]


def test_several_classes_against_scikit_learn() -> None:
    generator = np.random.Generator(np.random.PCG64(2))
    gold, guessed = generator.integers(0, 2, (2, 50, 3))
    names = [[[NAMES[index] for index in np.flatnonzero(row)] for row in side] for side in (gold, guessed)]
    records: list[dict[str, Any]] = [{"gold": one, "labels": two} for one, two in zip(*names, strict=True)]
    columns = zip(*precision_recall_fscore_support(gold, guessed), strict=True)
    assert [*class_scores(SEVERAL, records).values()] == [pytest.approx(row) for row in columns]
    assert not class_pairs(SEVERAL, records)


def test_the_worst_rows_come_first() -> None:
    records: list[dict[str, Any]] = [
        {"texts": ["<b> " + "x" * 200], "gold": "a", "label": "b", "error": 0.7},
        {"texts": ["right"], "gold": "a", "label": "a", "error": 0.0},
        {"texts": ["p", "q"], "gold": "c", "label": "b", "error": 0.9},
    ]
    (first, *_), (second, *_) = worst_rows(records)
    assert (first, len(second)) == ("p | q", 100)
    lines = "\n".join(error_lines(FACTS, records))
    assert "Confusion: gold by predicted" in lines
    assert lines.index("p | q") < lines.index("<b>")


def test_every_prediction_of_a_split_with_its_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert "Worst rows:" in shown
    assert evaluate.main([str(tmp_path / "run"), "perplexity=x.txt", "errors=true"]) == 64


@pytest.mark.parametrize("name", [name for name in TASKS if name != "classes"])
def test_every_head_has_errors(tmp_path: Path, name: str) -> None:
    """An error is 0 where gold and prediction agree, and only there."""
    make, head, options = TASKS[name]
    family = {"model__family": "encoder_decoder"} if head == "lm" else {}
    manifest = make(tmp_path) / "train" / "manifest.json"
    write_run_on(tmp_path / "run", manifest, [3], 1, model__heads={head: options}, model__init={"std": 0.5}, **family)
    opened = open_task_run(tmp_path / "run", "dev")
    records = answered_records(opened, set_rows(opened.shards))
    assert len(records) == len({record["uid"] for record in records}) > 0
    assert all(record["error"] >= 0 for record in records)
    assert any(record["error"] > 0 for record in records)
    key = {"tagging": "tags", "multiple_choice": "choice"}.get(head)
    if key:
        assert [record["error"] == 0 for record in records] == [record["gold"] == record[key] for record in records]
    assert "Worst rows:" in "\n".join(error_lines(opened.facts, records))
