"""`model: {init_from: DIR}`: the configuration comes from where the weights do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clozeline.configuration.config import load_config, save_yaml, to_plain
from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import read_checkpoint
from clozeline.model.configuration.layer import DropoutConfig
from clozeline.train.configuration.config import TrainConfig
from tests.model.checkpoints.published import saved


def configured(folder: Path, *words: str) -> TrainConfig:
    path = folder / "train.yaml"
    path.write_text("model: {}\ndata: {shards: x}\noutput: y\n", encoding="utf-8")
    return load_config(TrainConfig, path, words)


@pytest.fixture
def published(tmp_path: Path) -> Path:
    folder = tmp_path / "published"
    saved(folder, "bert", hidden_act="gelu")
    return folder


def test_the_model_of_a_folder(tmp_path: Path, published: Path) -> None:
    config = configured(tmp_path, f"model.init_from={published}")
    assert config.model == replace(read_checkpoint(published).config, init_from=published)


def test_keys_that_are_given_win(tmp_path: Path, published: Path) -> None:
    config = configured(tmp_path, f"model.init_from={published}", "model.dropout={hidden: 0.25}")
    assert config.model.dropout == DropoutConfig(hidden=0.25)
    assert config.model.dim == read_checkpoint(published).config.dim


def test_the_model_of_a_run_without_its_own_source(tmp_path: Path, published: Path) -> None:
    first = configured(tmp_path, f"model.init_from={published}")
    run = tmp_path / "run"
    run.mkdir()
    save_yaml(to_plain(first), run / "config.yaml")
    assert configured(tmp_path, f"model.init_from={run}").model == replace(first.model, init_from=run)


def test_what_a_run_wrote_is_read_without_its_source(tmp_path: Path, published: Path) -> None:
    config = configured(tmp_path, f"model.init_from={published}")
    save_yaml(to_plain(config), tmp_path / "config.yaml")
    published.rename(tmp_path / "elsewhere")
    assert load_config(TrainConfig, tmp_path / "config.yaml") == config


@pytest.mark.parametrize("content", [None, "", "model: 3\n"])
def test_refused(tmp_path: Path, content: Any) -> None:
    folder = tmp_path / "source"
    if content is not None:
        folder.mkdir()
        (folder / "config.yaml").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"model\.init_from: .*source.*expected"):
        configured(tmp_path, f"model.init_from={folder}")
