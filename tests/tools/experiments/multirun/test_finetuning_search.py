"""Keys chosen by their scores, whose runs are trained once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from clozeline.tools.experiments import finetune
from clozeline.tools.experiments.finetune import choose_words, combinations
from clozeline.tools.experiments.multirun.runner import Training


def test_every_combination_is_tried() -> None:
    words = combinations({"optimizer.learning_rate": [0.001, "3e-4"], "steps": [5, 10], "freeze": ["body", None]})
    assert len(words) == len({tuple(each) for each in words}) == 8
    assert words[0] == ["optimizer.learning_rate=0.001", "steps=5", "freeze=body"]
    assert words[-1] == ["optimizer.learning_rate=3e-4", "steps=10", "freeze=null"]


def test_the_best_score_chooses_and_the_first_of_equal_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {"run-0": 0.5, "run-1": 0.7, "run-2": 0.7, "run-3": 0.6}
    trained: list[Training] = []

    def collect(trainings: Sequence[Training]) -> None:
        trained.extend(trainings)

    def read(folder: Path) -> list[SimpleNamespace]:
        metrics = {"accuracy": scores[folder.name], "other": 1.0}
        return [SimpleNamespace(scores={"metrics": metrics}, facts=SimpleNamespace(metrics=("accuracy", "other")))]

    monkeypatch.setattr(finetune, "collect_all", collect)
    monkeypatch.setattr(finetune.finetuning_scores, "read_scored", read)
    chosen, lines = choose_words(tmp_path, Path("train.yaml"), ["seed=0"], {"steps": [1, 2, 3, 4]})
    assert chosen == ["steps=2"]
    assert [training.overrides for training in trained] == [
        ["seed=0", f"steps={number + 1}", f"output={tmp_path / f'run-{number}' / 'run'}"] for number in range(4)
    ]
    assert [line.endswith("<- chosen") for line in lines] == [False, False, True, False, False]
    assert json.loads((tmp_path / "choice.json").read_text(encoding="utf-8"))["chosen"] == ["steps=2"]
