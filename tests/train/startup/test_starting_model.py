from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError
from clozeline.model.parameters.sharding import SHAPES
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import open_datasets
from clozeline.train.startup import starting_model
from clozeline.train.startup.initial_weights import OtherTokenizer
from clozeline.train.startup.start_or_resume import StartingPoint
from clozeline.train.startup.starting_model import build_starting_model
from tests.train.masked_set import write_config
from tests.train.runs import complete
from tests.train.starts import start_of


def test_initial_weights_are_a_function_of_the_seed(tmp_path, shards):
    config = load_config(
        TrainConfig, write_config(tmp_path / "train.yaml", shards, tmp_path / "run"), []
    )
    train = open_datasets(config).train
    state = TrainState(step=0, samples=0)

    def weights(seed, freeze=()):
        point = StartingPoint(start_of(replace(config, seed=seed, freeze=freeze)), state, None)
        starting = build_starting_model(point, train)
        assert (starting.base, starting.new) == ("", [])
        assert bool(starting.lines) == bool(freeze)
        return starting.model.family.tokens.weight.detach()

    assert torch.equal(weights(1), weights(1, ("embeddings",)))
    assert not torch.equal(weights(1), weights(2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, one_rank, shards):
    """A folder with a trained run of four layers, `teacher`, and the configuration of a student of
    two."""
    folder = tmp_path_factory.mktemp("teacher")
    config = write_config(folder / "train.yaml", shards, folder / "teacher", evaluate__max_rows=0)

    complete(one_rank, config, ["steps=2", "model.layers=4", "model.type_vocab_size=2"])

    return folder


def test_an_adapter_without_weights_is_counted_and_does_not_train(folder):
    config = load_config(TrainConfig, folder / "train.yaml", ["model.adapter=lora"])
    point = StartingPoint(start_of(config), TrainState(step=0, samples=0), None)
    train = open_datasets(config).train

    with pytest.raises(ConfigurationError, match=r"set model\.init_from"):
        build_starting_model(point, train)

    model = build_starting_model(point, train, SHAPES).model
    trained = [name for name, tensor in model.named_parameters() if tensor.requires_grad]
    assert trained
    assert all(name.startswith("adapters.") for name in trained)


def test_an_adapter_does_not_freeze_new_pieces(folder, monkeypatch):
    """The embeddings under an adapter are frozen: rows of new ids would stay what they start as."""
    words = ["model=null", f"model.init_from={folder / 'teacher'}", "model.adapter=lora"]
    config = load_config(TrainConfig, folder / "train.yaml", words)
    point = StartingPoint(start_of(config), TrainState(step=0, samples=0), None)

    for parts, refused in (({45: (1,)}, True), ({}, False)):
        other = OtherTokenizer(45, 50, parts)
        monkeypatch.setattr(starting_model, "compare_ids", lambda *_, other=other: other)

        with (
            pytest.raises(ConfigurationError, match="an adapter freezes the embeddings")
            if refused
            else nullcontext()
        ):
            starting_model.build_starting_model(point, open_datasets(config).train)
