from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from clozeline.configuration.config import load_config
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import open_datasets
from clozeline.train.startup.start_or_resume import StartingPoint
from clozeline.train.startup.starting_model import build_starting_model
from tests.train.masked_set import write_config, write_masked_sets


def test_initial_weights_are_a_function_of_the_seed(tmp_path: Path) -> None:
    shards = write_masked_sets(tmp_path / "corrupt")
    config = load_config(TrainConfig, write_config(tmp_path / "train.yaml", shards, tmp_path / "run"), [])
    train = open_datasets(config).train
    state = TrainState(step=0, samples=0)

    def weights(seed: int, freeze: tuple[str, ...] = ()) -> torch.Tensor:
        point = StartingPoint(replace(config, seed=seed, freeze=freeze), state, None, None)
        starting = build_starting_model(point, train)
        assert (starting.base, starting.new) == ("", [])
        assert bool(starting.lines) == bool(freeze)
        return starting.model.family.tokens.weight.detach()

    assert torch.equal(weights(1), weights(1, ("embeddings",)))
    assert not torch.equal(weights(1), weights(2))
