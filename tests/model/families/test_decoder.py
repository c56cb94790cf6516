import pytest
import torch

from clozeline.model.configuration.layer import BiasConfig
from clozeline.model.configuration.position import PositionConfig
from tests.model.small_models import batch_for, built, changed, states

SMALL = {
    "norm": "rms",
    "activation": "silu",
    "gated": True,
    "kv_heads": 2,
    "bias": BiasConfig(qkv=False, out=False, ffn=False),
    "position": PositionConfig(kind="rope"),
    "heads": {"lm": 1.0},
}


@pytest.mark.parametrize("kind", ["learned", "rope", "t5"])
def test_a_prefix_is_seen_in_both_directions_and_nothing_later(kind):
    network = built("decoder", position=PositionConfig(kind=kind, maximum=32, buckets=8, max_distance=9))
    tensors = batch_for("decoder", lengths=[11, 11]) | {"prefix_length": torch.tensor([4, 0])}
    before = states(network, tensors)
    for place in range(11):
        after = states(network, changed(tensors, "input_ids", 0, place))
        unseen = 0 if place < 4 else place
        assert torch.equal(before[0, :unseen], after[0, :unseen])
        assert not (before[0, unseen:] == after[0, unseen:]).all(-1).any()
        assert torch.equal(before[1], after[1])
        without = states(network, changed(tensors, "input_ids", 1, place))
        assert torch.equal(before[1, :place], without[1, :place])
        assert not (before[1, place:] == without[1, place:]).all(-1).any()
