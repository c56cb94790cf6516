"""The model computes with the averages while it is asked to, and has every bit of its weights back afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World, load_deepspeed
from clozeline.train.engine import Engine
from clozeline.train.evaluate import averages_as_weights
from tests.distributed import RankPool
from tests.train.synthetic import NO_DROPOUT, RandomSource, build, tiny, train_steps

STEADY = {"name": "nt_asgd", "learning_rate": 0.5, "patience": 1}
RISING = [1.0, 1.0, 2.0]


def weights(engine: Engine) -> dict[str, torch.Tensor]:
    """The weights that the model computes with, whole, on every rank."""
    found = {}
    for name, parameter in engine.model.named_parameters():
        with load_deepspeed().zero.GatheredParameters([parameter], enabled=engine.config.zero.stage == 3):
            found[name] = parameter.detach().float().clone()
    return found


CASES = [
    pytest.param({"zero__stage": 1}, id="stage 1"),
    pytest.param({"zero__stage": 3}, id="stage 3", marks=pytest.mark.slow),
    pytest.param({"zero__stage": 1, "precision": "bf16"}, id="bf16", marks=pytest.mark.slow),
]


def evaluated(world: World, config: TrainConfig, look: bool) -> list[tuple[str, str]]:
    """Eight steps, the averages from the second on; after the fifth, a pass with the averages, or none."""
    engine = build(config, world)
    found = train_steps(engine, 1, 2)
    assert engine.follow(RISING)
    found += train_steps(engine, 3, 5)
    if look:
        engine.train(False)
        with torch.no_grad(), averages_as_weights(engine):
            batch = RandomSource(config, world, 0).next_step()[0]
            engine.losses(engine.inputs(batch, step=0))
        engine.train(True)
    found += train_steps(engine, 6, 8)
    engine.close()
    return found


SPREAD = {"zero__stage": 3, "zero__persistent": 0}


@pytest.mark.parametrize("change", [*CASES, pytest.param(SPREAD, id="stage 3 spread", marks=pytest.mark.slow)])
def test_a_pass_with_the_averages_leaves_training_as_it_was(two_ranks: RankPool, change: dict[str, Any]) -> None:
    """Stage 3 may keep what a forward pass gathered: those would be averages, on which training would go on."""
    config = tiny(optimizer=STEADY, evaluate__every=1, **NO_DROPOUT, **change)
    assert two_ranks.run(evaluated, config, True) == two_ranks.run(evaluated, config, False)
