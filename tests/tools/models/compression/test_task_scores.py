"""Scores of runs, of seeds, and of model folders: those of `clozeline evaluate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.tools.models.compress import main as compress
from clozeline.tools.models.compression.comparison import score, seeds_of
from clozeline.tools.models.export_model import main as export
from clozeline.tools.models.import_model import main as import_model
from clozeline.tools.runs.evaluate import EvaluateOptions, evaluate_run
from tests.distributed import RankPool
from tests.tools.runs.evaluation.task_runs import tuned_run
from tests.tools.test_exported_tasks import BERT


@pytest.fixture(scope="module")
def tuned(one_rank: RankPool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = {f"model__{key}": value for key, value in BERT.items()}
    return tuned_run(one_rank, tmp_path_factory.mktemp("tuned"), **changes)


@pytest.fixture(scope="module")
def task(tuned: Path) -> Path:
    return next(path.parent.parent for path in tuned.parent.glob("**/dev/manifest.json"))


def test_a_run_and_its_folder_have_the_score_of_evaluate(tuned: Path, task: Path, tmp_path: Path) -> None:
    expected = json.loads(evaluate_run(tuned, EvaluateOptions()))["metrics"]
    assert score([tuned, tuned], "dev", task) == (next(iter(expected)), (expected["accuracy"],) * 2)
    assert export([str(tuned), str(tmp_path / "theirs")]) == 0
    with pytest.raises(ConfigurationError, match="clozeline import-model"):
        score([tmp_path / "theirs"], "dev", task)
    assert import_model([str(tmp_path / "theirs"), str(tmp_path / "ours")]) == 0
    assert score([tmp_path / "ours"], "dev", task).values == (expected["accuracy"],)
    words = ["method=magnitude", "sparsity=0.3", f"task={task}", "length=9", "repeats=1", f"output={tmp_path / 'out'}"]
    assert compress([str(tmp_path / "ours"), *words]) == 0
    assert score([tmp_path / "out"], "dev", task).metric == "accuracy"


def test_runs_of_seeds_are_found(tuned: Path, tmp_path: Path) -> None:
    assert seeds_of(tuned) == [tuned]
    for seed in (1, 0):
        (tmp_path / f"seed-{seed}" / "checkpoints" / "step-00000001").mkdir(parents=True)
    assert seeds_of(tmp_path) == [tmp_path / "seed-0", tmp_path / "seed-1"]
    with pytest.raises(ConfigurationError, match="expected a run, a model folder"):
        seeds_of(tmp_path / "seed-0" / "checkpoints")
