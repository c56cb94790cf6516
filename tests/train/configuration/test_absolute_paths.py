"""Paths of a stored configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.configuration.config import load_config
from clozeline.train.configuration.absolute_paths import with_absolute_paths
from clozeline.train.configuration.config import TrainConfig
from tests.train.masked_set import write_config


def test_stored_paths_are_absolute_but_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_config(Path("train.yaml"), Path("sets/train"), Path("run"), data__heldout={"a": "sets/b", "c": "/d"})
    config = with_absolute_paths(load_config(TrainConfig, path, ["model.init_from=../other"]))
    assert config.data.first_set == tmp_path / "sets" / "train"
    assert config.data.heldout == {"a": tmp_path / "sets" / "b", "c": Path("/d")}
    assert config.output == tmp_path / "run"
    assert config.model.init_from == tmp_path / ".." / "other"
    remote = load_config(TrainConfig, path, ["data.shards=s3://bucket/train"])
    assert with_absolute_paths(remote).data.first_set == remote.data.first_set
    assert with_absolute_paths(config) == config
