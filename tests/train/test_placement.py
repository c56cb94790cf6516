"""A model is built in parts at stage 3: the bits of a whole one, and no more than a share of it on each rank."""

from dataclasses import replace

import pytest
import torch

from clozeline.model.build import build_model
from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import DisentangledConfig, PositionConfig
from clozeline.model.parameters.sharding import WHOLE, full_shape
from clozeline.train.checkpoint.format import WEIGHT
from clozeline.train.checkpoint.zero_partitions import fragments, shapes
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.configuration.engine_config import placement_of
from clozeline.train.distributed.process_group import World, load_deepspeed
from tests.distributed import RankPool
from tests.matrices import STAGES
from tests.model.small_models import SPELLINGS, small_config
from tests.train.synthetic import VOCABULARY, build, tiny

CASES = {
    "encoder": {},
    "decoder": {},
    "encoder_decoder": {"layers": 3, "share": ShareConfig(groups=1, stacks=True)},
    "awd_lstm": {},
    "elmo": {},
    "mobilebert": {},
    "xlnet": {},
    "replaced_tokens": {"embedding_sharing": "disentangled"},
}
RELATIVE = PositionConfig(kind="none", disentangled=DisentangledConfig(max_distance=4, convolution=3, mask_decoder=2))
SEED = 11
Piece = tuple[str, int, list[float]]
Computed = dict[str, tuple[str, list[float]]]


def configs() -> dict[str, ModelConfig]:
    found = {family: small_config(family, **changes) for family, changes in CASES.items()}
    return found | {"relative places": small_config("encoder", position=RELATIVE)}


def compared(world: World, precision: str) -> dict[str, tuple[list[str], float]]:
    """The parameters that differ from those of a whole model, and the share of the elements on this rank."""
    config = tiny(zero__stage=3, zero__persistent=0, precision=precision)
    linear, found = torch.nn.functional.linear, {}
    for name, model in configs().items():
        whole, parts = (
            build_model(model, 37, {"pad": 0}, SPELLINGS, seed=5, placement=placement)
            for placement in (WHOLE, placement_of(replace(config, model=model), world))
        )
        differing = []
        for (label, one), (_, other) in zip(whole.named_parameters(), parts.named_parameters(), strict=True):
            assert one.shape == full_shape(other)
            with load_deepspeed().zero.GatheredParameters([other]):
                if not torch.equal(one.to(other.dtype), other):
                    differing.append(label)
        assert whole.parameters_by_part == parts.parameters_by_part
        assert whole.flops(9, 4) == parts.flops(9, 4)
        here = sum(parameter.ds_tensor.numel() + parameter.numel() for parameter in parts.parameters())
        found[name] = differing, here / whole.num_parameters()
    torch.nn.functional.linear = linear
    return found


@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.slow)])
def test_parts_are_those_of_a_whole_model(two_ranks: RankPool, precision: str) -> None:
    for found in two_ranks.run(compared, precision):
        for name, (differing, share) in found.items():
            assert not differing, name
            assert 0.5 <= share < 0.52, name  # parts are padded to the same size on each rank


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
