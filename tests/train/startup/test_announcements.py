from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from clozeline.configuration.config import load_config
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.logs.cost_estimate import Peak
from clozeline.train.startup.announcements import announce_start, dry_run
from clozeline.train.startup.start_or_resume import StartingPoint
from tests.train.masked_set import write_config
from tests.train.synthetic import tiny

STATE = TrainState(step=0, samples=0, shape={"world_size": 1})
SAME = "resumed from step-00000002"
OTHER = "the run was {'world_size': 2} and is {'world_size': 1} now: the state is the same, rounding will differ"


@pytest.mark.parametrize(
    ("saved", "event", "said"),
    [
        (None, "start", ["cost", "peak       1e+09 operations a second on each rank: measured"]),
        (replace(STATE, step=2), "resume", [SAME]),
        (replace(STATE, step=2, shape={"world_size": 2}), "resume", [SAME, OTHER]),
    ],
)
def test_a_start_prints_its_cost_and_a_resumed_run_its_checkpoint(
    saved: TrainState | None, event: str, said: list[str], tmp_path: Any
) -> None:
    checkpoint: Any = None if saved is None else (tmp_path / "step-00000002", None)
    display, journal = Mock(), Mock()
    config = tiny(steps=4).with_horizon(4)
    announce_start(StartingPoint(config, STATE, checkpoint, saved), ["cost"], Peak(1e9, "measured"), display, journal)
    assert [call.args[0] for call in display.say.call_args_list] == said
    assert journal.event.call_args.args == (event,)


def test_dry_run_measures_the_device_of_the_start(
    tmp_path: Path, shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(TrainConfig, write_config(tmp_path / "train.yaml", shards, tmp_path / "run"), [])
    measured = []
    monkeypatch.setattr(
        "clozeline.train.startup.announcements.operations_per_second",
        lambda device, _precision: measured.append(device) or 1e9,
    )
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda _device: "a GPU that is not there")
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _device: (9, 0))
    monkeypatch.setenv("LOCAL_RANK", "0")
    for accelerator in ("cuda", "cpu"):
        monkeypatch.setenv("DS_ACCELERATOR", accelerator)
        assert dry_run(config) == 0
    assert [device.type for device in measured] == ["cuda", "cpu"]
    assert not (tmp_path / "run").exists()
