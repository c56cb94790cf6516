"""Without the extension: a training goes on, and its keys are refused by its name."""

import subprocess
import sys

import pytest

from clozeline.errors import CheckpointError
from clozeline.train.checkpoint.state import TrainState
from tests.guard import ROOT
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.runs import start


def test_a_run_goes_on_without_the_extension_and_its_keys_name_it(tmp_path, one_rank, monkeypatch):
    monkeypatch.setenv("CLOZELINE_HIDE", "compression")
    shards = write_masked_sets(tmp_path / "sets")
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "run", evaluate__max_rows=0)

    def train(*words):
        command = [sys.executable, "-m", "clozeline", "train", "--config", str(config), *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert one_rank.run(start, config, ["steps=2", "schedule.steps=4"]) == [(0, "")]

    resumed = train("steps=4", "schedule.steps=4", "resume=must", "distil=null")

    assert resumed.returncode == 0, resumed.stderr

    for key, word in (("distil", "distil={}"), ("prune", "prune=magnitude")):
        refused = train(word)
        assert refused.returncode == 64
        assert f"{key}: is a key of the extension compression" in refused.stderr


def test_a_checkpoint_with_its_state_names_it(monkeypatch):
    data = {"step": 1, "samples": 8, "token_rule": {"shares": [0.5]}}
    state = TrainState.read(data)
    read_again = {key: value for key, value in state.as_dict().items() if key in data}

    assert read_again == data

    monkeypatch.setenv("CLOZELINE_HIDE", "compression")
    with pytest.raises(CheckpointError, match="token_rule is of the extension compression"):
        TrainState.read(data)
