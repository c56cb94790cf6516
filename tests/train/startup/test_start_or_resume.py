"""The begin of a run, and a dry run's account of it."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch

from clozeline.configuration.config import load_config
from clozeline.errors import CheckpointError, ConfigurationError
from clozeline.registry import names
from clozeline.sealed_json import seal
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.startup.announcements import dry_run
from clozeline.train.startup.start_or_resume import StartingPoint, find_starting_point
from tests.distributed import RankPool
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.synthetic import tiny
from tests.train.test_refused_starts import contents, start


@pytest.fixture(scope="module")
def trained(one_rank: RankPool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four steps that were to be its last: a schedule of four steps, down to half of the rate."""
    folder = tmp_path_factory.mktemp("trained")
    shards = write_masked_sets(folder / "corrupt")
    changes = {"checkpoint__every": 2, "schedule__steps": None, "schedule__final": 0.5}
    config = write_config(folder / "train.yaml", shards, folder / "run", **changes)
    assert one_rank.run(start, config, ["steps=4"]) == [(0, "")]
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "copy")
    return tmp_path / "copy"


def dry(folder: Path, *overrides: str) -> int:
    """Make a dry run; nothing has changed."""
    before = contents(folder)
    words = [f"output={folder / 'run'}", *overrides]
    try:
        return dry_run(load_config(TrainConfig, folder / "train.yaml", words))
    finally:
        assert contents(folder) == before


def test_a_dry_run_shows_what_the_frozen_keys_of_a_run_do(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dry(folder, "steps=10") == 0
    said = re.sub(r"\n +", " ", capsys.readouterr().out)
    assert "run        done, step 4, step-00000004" in said
    assert "resume     from step-00000004: 4 of 10 steps are done; the schedule ends at 4, as the run began" in said
    assert "length     10 steps (schedule ends at 4)" in said
    assert "parameters: tokens " in said
    assert "stage 0: " in said
    assert "stage 3: " in said
    assert "the schedule ends at step 4: up to step 10 the rate keeps its last value" in said
    assert dry(folder, "steps=3") == 0
    assert "from step-00000004: nothing is left to do" in capsys.readouterr().out


def test_a_dry_run_refuses_what_a_start_refuses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigurationError, match="seed: 7 in the checkpoint, 8 now"):
        dry(folder, "seed=8")
    with pytest.raises(ConfigurationError, match="is not empty"):
        dry(folder, "resume=never")
    newest, before = (folder / "run" / "checkpoints" / f"step-0000000{step}" for step in (4, 2))
    (newest / "checkpoint.json").unlink()
    assert dry(folder) == 0
    said = capsys.readouterr().out
    assert "checkpoint step-00000004 is passed over" in said
    assert "resume     from step-00000002" in said
    (before / "part-00000.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="holds 2 checkpoints, none of them is valid"):
        dry(folder)


@pytest.mark.parametrize("name", names("clozeline.train.optim.schedules"))
@pytest.mark.parametrize(
    ("warmup", "horizon", "steps", "fits"),
    [(5, None, 4, False), (5, 4, 8, False), (4, None, 4, True), (5, 8, 4, True), (5, 5, 4, True)],
)
def test_a_warmup_beyond_the_schedule_is_refused(
    name: str, warmup: int, horizon: int | None, steps: int, fits: bool
) -> None:
    """By both figures; a run that is the first part of a longer schedule begins."""
    config = tiny(precision="fp32", schedule={"name": name, "warmup": warmup, "steps": horizon}, steps=steps)
    begin = partial(find_starting_point, config, "a set", 1, torch.device("cpu"))
    with nullcontext() if fits else pytest.raises(ConfigurationError, match=r"expected at most 4, .* got 5") as error:
        assert begin(None).step == 0
    if not fits:
        ways = re.findall(r"schedule\.steps to (\d+)|schedule\.warmup=(\d+)", str(error.value))
        assert ways == [("", "0"), ("5", "")]


def test_a_dry_run_says_that_a_killed_run_does_not_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "run" / "status.json"
    plain = {**json.loads(path.read_text()), "state": "running", "host": "gone", "heartbeat": 0.0}
    del plain["checksum"]
    path.write_text(json.dumps(seal(plain)))
    assert dry(folder) == 0
    assert "run        not running any more, process " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("schedule", "steps", "said"),
    [
        ({"name": "linear", "warmup": 2, "steps": 8}, 8, ""),
        (
            {"name": "constant", "warmup": 2, "steps": 4},
            8,
            "ends at step 4: up to step 8 the rate keeps its last value",
        ),
        ({"name": "cosine", "warmup": 6, "steps": 4}, 5, "within its warm-up: the rate rises up to step 5"),
        ({"name": "cosine", "warmup": 6, "steps": 4}, 8, "within its warm-up: the rate rises up to step 6"),
        ({"name": "inverse_sqrt", "warmup": 2, "steps": 4}, 8, ""),
    ],
)
def test_what_the_rate_does_after_the_schedule(schedule: dict[str, object], steps: int, said: str) -> None:
    """The words are held against the rates themselves."""
    config = tiny(schedule=schedule, steps=steps)
    words = StartingPoint(config, TrainState(step=0, samples=0), None, None).beyond_horizon()
    assert said in words
    assert bool(said) == bool(words)
    horizon = config.schedule.options.steps
    rates = [config.schedule.build(horizon)(step) for step in range(horizon, steps + 1)]
    assert ("keeps" in words) == (len(rates) > 1 and len(set(rates)) == 1)
    assert ("rises" in words) == (len(rates) > 1 and rates[1] > rates[0])
