"""The threshold of no answer of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.tools.runs.evaluate import main
from clozeline.tools.runs.evaluation.answer_threshold import store_threshold, stored_threshold
from tests.pipeline.task_files import write_questions, write_vocabulary
from tests.train.written_runs import write_run_on


def test_a_run_keeps_the_threshold_of_its_checkpoint(tmp_path: Path) -> None:
    assert stored_threshold(tmp_path, "a") == 0.0
    store_threshold(tmp_path, -1.5, {"checkpoint": "a", "set": "s", "f1": 0.5})
    assert (stored_threshold(tmp_path, "a"), stored_threshold(tmp_path, "b")) == (-1.5, 0.0)
    path = tmp_path / "answer_threshold.json"
    path.write_text(path.read_text(encoding="utf-8").replace("-1.5", "-2.5"), encoding="utf-8")
    with pytest.raises(IntegrityError, match=r"answer_threshold\.json"):
        stored_threshold(tmp_path, "a")
    path.write_text(json.dumps({}), encoding="utf-8")
    with pytest.raises(IntegrityError, match=r"answer_threshold\.json"):
        stored_threshold(tmp_path, "a")


def test_evaluate_tunes_and_later_scores_use_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of an untrained run, whose margins are arbitrary: every second question has no answer."""
    files = write_questions(tmp_path / "files")
    for path in files.iterdir():
        data = json.loads(path.read_text(encoding="utf-8"))
        for number, article in enumerate(data["data"]):
            if number % 2:
                article["paragraphs"][0]["qas"][0] |= {"answers": [], "is_impossible": True}
        path.write_text(json.dumps({**data, "version": "v2.0"}), encoding="utf-8")
    reader, recipe = "{name: squad, task: toy, unanswerable: true}", tmp_path / "recipe.yaml"
    recipe.write_text(f"corpus: toy\nseed: 1\ntasks:\n  reader: {reader}\n  max_length: 14\n", encoding="utf-8")
    words = [f"input={files}", f"tokenizer.path={write_vocabulary(tmp_path / 'words')}", f"output={tmp_path / 'out'}"]
    assert run_pipeline(["--config", str(recipe), *words]) == 0
    model = {"model__heads": {"span": {}}, "model__init": {"std": 0.5}}
    write_run_on(tmp_path / "run", tmp_path / "out/tasks/toy/train/manifest.json", [1], 1, **model)
    capsys.readouterr()

    def scores(*words: str) -> dict[str, Any]:
        assert main([str(tmp_path / "run"), "--json", *words]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    before = scores()
    tuned, after = scores("tune=true"), scores()
    assert before["threshold"] == 0.0
    assert tuned == after
    assert after["threshold"] == stored_threshold(tmp_path / "run", after["checkpoint"]) != 0.0
    assert after["metrics"]["f1"] >= max(before["metrics"]["f1"], 11 / 21 - 1e-9)  # 11 of 21 with an answer, or none
    assert main([str(tmp_path / "run"), "split=train"]) == 0
    assert f"threshold of no answer {after['threshold']:.3f}" in capsys.readouterr().out
