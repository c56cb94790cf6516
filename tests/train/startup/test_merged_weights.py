"""All weights of a run with an adapter: its own and those beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints._conversion.tensor_layouts import parameter_shapes
from clozeline.train.checkpoint.run_weights import find_checkpoint, read_weights
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.run import run
from clozeline.train.startup.merged_weights import read_all_weights
from clozeline.train.startup.run_directory import read_config
from tests.distributed import RankPool
from tests.train.masked_set import FIRST_WORD, WORDS, write_config, write_masked_sets


def start(world: World, config: Path, overrides: list[str]) -> int:
    return run(load_config(TrainConfig, config, overrides), joined=world)


def test_the_base_comes_from_where_it_was(tmp_path: Path, one_rank: RankPool) -> None:
    shards = write_masked_sets(tmp_path / "sets")
    base, output = tmp_path / "base", tmp_path / "adapted"
    config = write_config(tmp_path / "train.yaml", shards, base, evaluate__max_rows=0)
    one_rank.run(start, config, ["steps=2"])
    padded = ["model.vocab_multiple=64", "model.adapter=lora", f"model.init_from={base}"]
    one_rank.run(start, config, [f"output={output}", "steps=2", *padded])
    model = read_config(output).model
    shapes = parameter_shapes(model, FIRST_WORD + WORDS)
    directory, index = find_checkpoint(output)
    weights, own, first = read_all_weights(model, directory, index, shapes), read_weights(directory, index), None
    assert {name: tensor.shape for name, tensor in weights.items()} == dict(shapes)
    first = read_weights(*find_checkpoint(base))
    assert own.keys() | first.keys() == weights.keys()
    for name, tensor in first.items():
        assert torch.equal(weights[name][: len(tensor)], tensor), name
    assert len(weights["family.tokens.weight"]) == 64
    shutil.move(base, tmp_path / "gone")
    with pytest.raises(ConfigurationError, match="holds an adapter alone, and its base model"):
        read_all_weights(model, directory, index, shapes)
