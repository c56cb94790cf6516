"""Initial weights have the same bits at every ZeRO stage and on every number of ranks."""

from __future__ import annotations

import pytest
import torch

from clozeline.train.checkpoint.format import WEIGHT
from clozeline.train.checkpoint.zero_partitions import fragments, shapes
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.configuration.engine_config import placement_of
from clozeline.train.distributed.process_group import World
from tests.distributed import RankPool
from tests.matrices import STAGES
from tests.train.synthetic import VOCABULARY, build, tiny

SEED = 11
Piece = tuple[str, int, list[float]]
Computed = dict[str, tuple[str, list[float]]]


def masters(world: World, config: TrainConfig) -> tuple[dict[str, list[int]], list[Piece], Computed]:
    """What this rank holds before the first step: fp32 masters (name, start, elements), and what it computes with."""
    engine = build(config, world, SEED)
    found = [(one.name, one.start, one.tensors[WEIGHT].tolist()) for one in fragments(engine, owned=False)]
    whole = shapes(engine)
    with placement_of(config, world).gather(list(engine.model.parameters())):
        computed = {name: (str(p.dtype), p.flatten().tolist()) for name, p in engine.model.named_parameters()}
    engine.close()
    return whole, found, computed


def plain(config: TrainConfig) -> dict[str, torch.Tensor]:
    """The weights of a model that knows no engine."""
    from clozeline.model.build import build_model

    model = build_model(config.model, VOCABULARY, {}, seed=SEED)
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def compare(pool: RankPool, config: TrainConfig) -> None:
    """Compare the masters with the fp32 weights, and what the model computes with with their rounding."""
    expected, ranks = plain(config), pool.run(masters, config)
    dtype = torch.bfloat16 if config.precision == "bf16" else torch.float32
    for *_, computed in ranks:
        assert computed == {name: (str(dtype), w.to(dtype).flatten().tolist()) for name, w in expected.items()}
    found = {name: torch.full(shape, torch.nan) for name, shape in ranks[0][0].items()}
    assert found.keys() == expected.keys()
    for _, pieces, _ in ranks:
        for name, start, values in pieces:
            found[name].view(-1)[start : start + len(values)] = torch.tensor(values)
    for name in expected:
        assert torch.equal(found[name], expected[name]), name


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(("stage", "precision"), STAGES)
def test_ranks_and_stages(one_rank: RankPool, two_ranks: RankPool, stage: int, precision: str, size: int) -> None:
    config = tiny(zero__stage=stage, zero__persistent=100, precision=precision)
    compare(two_ranks if size == 2 else one_rank, config)
