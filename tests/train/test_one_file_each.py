"""A head or an optimizer is one file: a module added to its folder is trained with at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.logs.cost_estimate import estimate_memory
from clozeline.train.run import run
from tests.distributed import RankPool
from tests.temporary_module import temporary_module
from tests.train.masked_set import write_config
from tests.train.runs import steps

HEAD = '''
    """Masked tokens, where being right about a likely one adds little (arXiv 1708.02002)."""

    from clozeline.model.heads.masked_lm import MaskedLM
    from clozeline.model.loss import cross_entropy_sum, gather_labels


    class Focal(MaskedLM):
        """Weighs each label by its improbability."""

        def forward(self, hidden, tensors):
            """Return the summed, weighed cross entropy."""
            labels = gather_labels(hidden, tensors)
            scores = self.logits(labels.states)
            likely = scores.detach().softmax(-1).gather(1, labels.ids.clamp(min=0)[:, None])[:, 0]
            return cross_entropy_sum(scores, labels.ids, (1 - likely) ** 2)
'''
OPTIMIZER = '''
    """Stochastic gradient descent with momentum."""

    from typing import ClassVar

    import torch
    from pydantic import Field

    from clozeline.configuration.config import config_class
    from clozeline.train.optim.optimizers import OptimizerBuilder, OptimizerOptions


    class Sgd(OptimizerBuilder):
        """Has one state, and no count of its steps."""

        statistics: ClassVar[str] = "STATISTICS"
        states: ClassVar[int] = 1

        @config_class
        class Options(OptimizerOptions):
            """Options of the descent."""

            momentum: float = Field(default=0.9, ge=0.0, lt=1.0)
            """Share of the last direction that is kept."""

        def build(self, groups):
            """Return the optimizer."""
            return torch.optim.SGD(list(groups), lr=self.options.learning_rate, momentum=self.options.momentum)
'''


def train_with(
    world: World, package: str, name: str, source: str, folder: Path, config: Path, overrides: tuple[str, ...] = ()
) -> int:
    with temporary_module(package, name, source, folder):
        return run(load_config(TrainConfig, config, overrides), joined=world)


def logged(output: Path, name: str = "loss") -> list[float]:
    return [record[name] for record in steps(output)]


def test_a_second_head_of_a_target(one_rank: RankPool, tmp_path: Path, shards: Path) -> None:
    """Objectives name what is predicted: a subclass of MaskedLM is trained on the rows that MaskedLM is."""
    output = tmp_path / "run"
    config = write_config(tmp_path / "c.yaml", shards, output, model__heads={"focal": 1.0}, steps=2)
    assert one_rank.run(train_with, "clozeline.model.heads", "focal", HEAD, tmp_path, config) == [0]
    (first, second), (record, _) = logged(output), logged(output, "losses")
    assert list(record) == ["focal"]
    assert first != second


@pytest.mark.parametrize("stage", [0, 1, pytest.param(3, marks=pytest.mark.slow)])
def test_an_optimizer_without_a_count_of_steps_resumes_exactly(
    two_ranks: RankPool, tmp_path: Path, shards: Path, stage: int
) -> None:
    chosen = {"name": "sgd", "learning_rate": 0.05, "weight_decay": 0.0, "momentum": 0.9}
    source = OPTIMIZER.replace("STATISTICS", "element")

    def train(name: str, *overrides: str) -> list[str]:
        path = tmp_path / f"{name}.yaml"
        config = write_config(path, shards, tmp_path / name, optimizer=chosen, zero__stage=stage, steps=6)
        assert two_ranks.run(
            train_with, "clozeline.train.optim.optimizers", "sgd", source, tmp_path, config, overrides
        ) == [0, 0]
        return [loss.hex() for loss in logged(tmp_path / name)]

    straight = train("straight")
    assert train("parts", "steps=3") == straight[:3]
    assert train("parts") == straight


def test_an_optimizer_says_itself_what_it_needs(tmp_path: Path, shards: Path) -> None:
    """The statistics of its update decide over the ZeRO stages, the number of its states over the estimate."""
    config = write_config(tmp_path / "c.yaml", shards, tmp_path / "run", optimizer={"name": "sgd"})
    with temporary_module(
        "clozeline.train.optim.optimizers", "sgd", OPTIMIZER.replace("STATISTICS", "element"), tmp_path / "whole"
    ):
        found = load_config(TrainConfig, config, [])
        assert estimate_memory(found, 1000, 2).optimizer == (4 + 4) * 1000 / 2
    with temporary_module(
        "clozeline.train.optim.optimizers", "sgd", OPTIMIZER.replace("STATISTICS", "matrix"), tmp_path / "shaped"
    ):
        with pytest.raises(ConfigurationError, match=r"sgd needs statistics of an entire matrix.*: set zero\.stage=0"):
            load_config(TrainConfig, config, [])
        assert estimate_memory(load_config(TrainConfig, config, ["zero.stage=0"]), 1000, 2).optimizer == 4 * 1000
