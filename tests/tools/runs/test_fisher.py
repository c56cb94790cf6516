"""Fisher information of a small run, measured by the command, and a training that keeps what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

from clozeline.configuration.config import load_config
from clozeline.errors import ClozelineError
from clozeline.pipeline.shards import open_shards
from clozeline.tools.runs.evaluation.task_run import set_rows
from clozeline.tools.runs.fisher import main
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.stream.collate import Collate
from clozeline.train.distributed.process_group import World
from clozeline.train.run import run
from clozeline.train.startup.open_run import open_run
from tests.distributed import RankPool
from tests.tools.runs.evaluation.task_runs import tuned_run


@pytest.fixture(scope="module")
def tuned(one_rank: RankPool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tuned_run(one_rank, tmp_path_factory.mktemp("tuned"))


def test_the_file_holds_weights_and_squares(tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same from the same seed; with all rows and the labels of the data it is the mean over the set, by a loop."""
    files = [tmp_path / name for name in ("a", "b", "c", "all")]
    for path, words in zip(files, (["seed=1"], ["seed=1"], ["seed=2"], ["rows=999", "empirical=true"]), strict=True):
        assert main([str(tuned), f"output={path}", "rows=20", *words]) == 0
    assert "60 rows at step 6, mean " in capsys.readouterr().out
    assert files[0].read_bytes() == files[1].read_bytes() != files[2].read_bytes()
    trained = open_run(tuned)
    names = [name for name, _ in trained.model.named_parameters()]
    with safe_open(files[3], framework="pt") as opened:
        assert json.loads(opened.metadata()["fisher"]) == {"step": 6, "rows": 60, "empirical": True}
        assert sorted(opened.keys()) == sorted(f"{kind}/{name}" for kind in ("fisher", "weight") for name in names)
        for name, parameter in trained.model.named_parameters():
            assert torch.equal(opened.get_tensor(f"weight/{name}"), parameter)
        bias = opened.get_tensor("fisher/heads.classification.classifier.out.bias")
    shards = open_shards(Path(trained.sets[0].path))
    rows, collate = set_rows(shards), Collate.from_manifest(shards.manifest)
    errors = []
    for row in range(60):
        one = {name: rows.columns[name].take(np.array([row])) for name in collate.columns}
        with torch.no_grad():
            shares = trained.model.logits(collate(one, np.ones(1, np.float32)))["classification"][0].softmax(-1)
        shares[int(rows.columns["label"].values[row])] -= 1.0
        errors.append(shares)
    torch.testing.assert_close(bias, torch.stack(errors).square().mean(0), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("words", "said"),
    [([], "'output' is missing"), (["output=f", "rows=0"], "rows"), (["output=f", "data=nowhere"], "nowhere")],
    ids=["no output", "no rows", "no data"],
)
def test_wrong_words_are_refused(
    tuned: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main([str(tuned), *words]) in (64, 74)
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def start(world: World, config: Path, words: list[str]) -> tuple[int, str]:
    try:
        return run(load_config(TrainConfig, config, words), joined=world), ""
    except ClozelineError as error:
        return error.exit_code, str(error)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return {name: p.detach() for name, p in open_run(folder).model.named_parameters()}


@pytest.mark.slow
def test_a_training_keeps_what_was_measured(one_rank: RankPool, tuned: Path, tmp_path: Path) -> None:
    """With a great strength the weights that matter stay; without one they go further away."""
    assert main([str(tuned), f"output={tmp_path / 'fisher'}", "rows=60"]) == 0
    words = [f"model.init_from={tuned}", "steps=4", "schedule.steps=8", "evaluate.max_rows=0", "seed=3"]
    moved: dict[str, float] = {}
    ewc: dict[str, Any] = {"kept": [f"regularizer={{name: ewc, strength: 1e10, fisher: {tmp_path / 'fisher'}}}"]}
    for name, more in {"plain": [], **ewc}.items():
        assert one_rank.run(start, tuned.parent / "train.yaml", [*words, *more, f"output={tmp_path / name}"]) == [
            (0, "")
        ]
        before, after = weights(tuned), weights(tmp_path / name)
        with safe_open(tmp_path / "fisher", framework="pt") as opened:
            fisher = {key: opened.get_tensor(f"fisher/{key}") for key in before}
        moved[name] = sum(float((fisher[key] * (after[key] - before[key]).square()).sum()) for key in before)
    assert moved["kept"] < moved["plain"] / 100
    code, said = one_rank.run(start, tuned.parent / "train.yaml", ["regularizer=l2_sp", f"output={tmp_path / 'no'}"])[0]
    assert (code, "needs model.init_from" in said) == (64, True)
