"""Checkpoints and shards of another run in the place of a run's own: refused, and nothing of either is changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from clozeline.pipeline.shards import Manifest
from tests.distributed import RankPool
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.runs import contents, events, start


@pytest.fixture(scope="module")
def trained(one_rank: RankPool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with the same names of files: `own`, and `other` with another seed over other rows."""
    folder = tmp_path_factory.mktemp("runs")
    for name, seed, rows in (("own", 7, 240), ("other", 8, 208)):
        shards = write_masked_sets(folder / name / "sets", rows=rows)
        config = write_config(folder / name / "train.yaml", shards, folder / name / "run", seed=seed)
        assert one_rank.run(start, config, ["steps=4", "schedule.steps=8", "checkpoint.every=2"]) == [(0, "")]
    return folder


CASES = {
    "whole run": ("run", "**/*"),
    "checkpoints": ("run/checkpoints", "**/*"),
    "parts": ("run/checkpoints", "**/part-*"),
    "index": ("run/checkpoints", "**/checkpoint.json"),
    "shards": ("sets/train", "**/shard-*"),
    "manifest": ("sets/train", "**/manifest.json"),
    "index of the set": ("sets/train", "**/index.arrow"),
}


def resumed(ranks: RankPool, trained: Path, own: Path, part: str, pattern: str) -> tuple[int, str]:
    """Start over a copy of the run that holds some files of the other."""
    shutil.copytree(trained / "own", own, dirs_exist_ok=True)
    replaced = 0
    for path in sorted((trained / "other" / part).glob(pattern)):
        if path.is_file():
            target = own / part / path.relative_to(trained / "other" / part)
            replaced += not target.exists() or target.read_bytes() != path.read_bytes()
            shutil.copyfile(path, target)
    assert replaced
    before = contents(own)
    overrides = [f"output={own / 'run'}", f"data.shards={own / 'sets/train/manifest.json'}", "steps=8"]
    ((code, message),) = ranks.run(start, own / "train.yaml", [*overrides, "schedule.steps=8"])
    assert code == 0 or contents(own) == before
    return code, message


@pytest.mark.parametrize("case", CASES)
def test_what_another_run_wrote_is_refused(one_rank: RankPool, trained: Path, tmp_path: Path, case: str) -> None:
    code, message = resumed(one_rank, trained, tmp_path, *CASES[case])
    assert code in (64, 65), message
    assert str(tmp_path) in message


def test_a_whole_other_set_is_a_new_phase_and_the_run_says_so(
    one_rank: RankPool, trained: Path, tmp_path: Path
) -> None:
    """A set may be replaced on purpose: from the saved position on the run reads the new one."""
    assert resumed(one_rank, trained, tmp_path, "sets/train", "**/*") == (0, "")
    digest = Manifest.load(trained / "other" / "sets" / "train" / "manifest.json").digest
    (change,) = events(tmp_path / "run", "new_phase")
    assert digest[:16] in json.dumps(change)
