"""A model is built in parts at stage 3: the bits of a whole one, and no more than a share of it on
each rank."""

from dataclasses import replace

import torch

from clozeline.model.build import build_model
from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.configuration.position import DisentangledConfig, PositionConfig
from clozeline.model.parameters.sharding import UNSHARDED, full_shape
from clozeline.train.configuration.engine_config import placement_of
from clozeline.train.distributed.process_group import load_deepspeed
from tests.model.small_models import SPELLINGS, small_config
from tests.train.synthetic import tiny

CASES = {
    "encoder": {},
    "decoder": {},
    "encoder_decoder": {"layers": 3, "share": ShareConfig(groups=1, stacks=True)},
    "awd_lstm": {},
    "elmo": {},
    "lstm_encoder_decoder": {},
    "mobilebert": {},
    "xlnet": {},
    "replaced_tokens": {"embedding_sharing": "disentangled"},
}
RELATIVE = PositionConfig(
    kind="none", disentangled=DisentangledConfig(max_distance=4, convolution=3, mask_decoder=2)
)


def configs():
    found = {family: small_config(family, **changes) for family, changes in CASES.items()}
    return found | {"relative places": small_config("encoder", position=RELATIVE)}


def compared(world):
    """The parameters that differ from those of a whole model, and the share of the elements on this
    rank."""
    config = tiny(zero__stage=3, zero__persistent=0)
    linear = torch.nn.functional.linear
    found = {}

    for name, model in configs().items():
        whole, parts = (
            build_model(model, 37, {"pad": 0}, SPELLINGS, seed=5, placement=placement)
            for placement in (UNSHARDED, placement_of(replace(config, model=model), world))
        )
        differing = []

        for (label, one), (_, other) in zip(
            whole.named_parameters(), parts.named_parameters(), strict=True
        ):
            assert one.shape == full_shape(other)
            with load_deepspeed().zero.GatheredParameters([other]):
                if not torch.equal(one.to(other.dtype), other):
                    differing.append(label)

        assert whole.parameters_by_part == parts.parameters_by_part
        assert whole.flops(9, 4) == parts.flops(9, 4)

        here = sum(
            parameter.ds_tensor.numel() + parameter.numel() for parameter in parts.parameters()
        )
        found[name] = differing, here / whole.num_parameters()

    torch.nn.functional.linear = linear
    return found


def test_parts_are_those_of_a_whole_model(two_ranks):
    for found in two_ranks.run(compared):
        for name, (differing, share) in found.items():
            assert not differing, name
            assert 0.5 <= share < 0.52, name  # parts are padded to the same size on each rank
