"""A family, head, optimizer or schedule is one file: a module added to its folder is trained with at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config import load_config
from tests.distributed import RankPool
from tests.temporary_module import temporary_module
from tests.train.masked_set import write_config, write_masked_sets
from train.config import TrainConfig
from train.distributed import World
from train.logs.journal import read_lines
from train.run import run

FAMILY = '''
    """An encoder that reads its stack twice."""

    from model.families.encoder import Encoder


    class TwiceReader(Encoder):
        """Shares everything with its parent but its name and its forward."""

        def forward(self, tensors):
            """Hidden states of the second reading."""
            return super().forward(tensors) + super().forward(tensors)
'''


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_masked_sets(tmp_path_factory.mktemp("corrupt"))


def train_with(world: World, package: str, name: str, source: str, folder: Path, config: Path) -> int:
    with temporary_module(package, name, source, folder):
        return run(load_config(TrainConfig, config, []), joined=world)


def losses(output: Path) -> list[float]:
    return [record["loss"] for record in read_lines(output / "metrics.jsonl")]


def test_a_second_family_of_an_architecture(one_rank: RankPool, tmp_path: Path, shards: Path) -> None:
    """Shards name an architecture, never a family: a subclass of Encoder is trained on masked-LM rows."""
    output = tmp_path / "run"
    config = write_config(tmp_path / "c.yaml", shards, output, model__family="twice_reader", steps=1)
    assert one_rank.run(train_with, "model.families", "twice_reader", FAMILY, tmp_path, config) == [0]
    plain = write_config(tmp_path / "p.yaml", shards, tmp_path / "plain", steps=1)
    assert one_rank.run(train_with, "model.families", "unused", "", tmp_path, plain) == [0]
    assert losses(output) != losses(tmp_path / "plain")
