from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.configuration.config import load_config
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.startup.announcements import dry_run
from tests.train.masked_set import write_config, write_masked_sets


def test_dry_run_measures_the_device_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = write_masked_sets(tmp_path / "corrupt")
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
