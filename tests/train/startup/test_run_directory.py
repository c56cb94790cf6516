"""Run directories: what a start finds there, and what it writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.stream.phases import open_phases
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.startup.run_directory import claim, write_description
from tests.distributed import RankPool
from tests.train.masked_set import write_config
from tests.train.runs import start


def test_one_run_at_a_time(tmp_path: Path, shards: Path) -> None:
    config = load_config(TrainConfig, write_config(tmp_path / "train.yaml", shards, tmp_path / "run"))
    with claim(config):
        with pytest.raises(ConfigurationError, match="in use by another process"):
            claim(config)
        write_description(config, open_phases(config.data))
        with pytest.raises(ConfigurationError, match=rf"in use by process {os.getpid()}"):
            claim(config)
    claim(config).close()


def test_never_resume_wants_an_empty_folder(one_rank: RankPool, tmp_path: Path, shards: Path) -> None:
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "run", steps=1)
    (tmp_path / "run").mkdir()
    assert one_rank.run(start, config, ["resume=never"]) == [(0, "")]
    ((code, message),) = one_rank.run(start, config, ["resume=never"])
    assert code == 64
    assert "is not empty" in message


def test_start_that_fails_early_leaves_the_folder_to_others(one_rank: RankPool, tmp_path: Path, shards: Path) -> None:
    """`must` makes nothing; what another failure leaves before the first step does not hinder `never`."""
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "run", steps=1)
    ((code, message),) = one_rank.run(start, config, ["resume=must"])
    assert (code, "holds no valid checkpoint" in message) == (64, True)
    assert not (tmp_path / "run").exists()
    assert one_rank.run(start, config, ["steps=9"])[0][0] == 64, "beyond the schedule"
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
    (tmp_path / "run" / "notes").write_text("mine")
    ((code, message),) = one_rank.run(start, config, ["resume=never"])
    assert (code, "notes" in message) == (64, True)
    (tmp_path / "run" / "notes").unlink()
    assert one_rank.run(start, config, ["resume=never"]) == [(0, "")]
    assert one_rank.run(start, config, ["resume=never"])[0][0] == 64


def _losses(output: Path) -> list[str]:
    return [record["loss"].hex() for record in read_lines(output / "metrics.jsonl")]
