import pytest
import torch

from clozeline.errors import BatchError
from clozeline.model.configuration.layer import BiasConfig
from clozeline.model.configuration.position import PositionConfig
from clozeline.model.layers.cache import Cache
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


@pytest.mark.parametrize("kind", ["learned", "rope", "t5"])
def test_padding_on_the_left_is_read_by_no_token(kind):
    network = built("decoder", position=PositionConfig(kind=kind, maximum=32, buckets=8, max_distance=9))
    tensors = batch_for("decoder", lengths=[11, 7]) | {"left_padding": torch.tensor([0, 4])}
    tensors["position_ids"][1] = (torch.arange(11) - 4).clamp(min=0)
    before = states(network, tensors)
    assert before.isfinite().all()
    for place in range(4):
        assert torch.equal(before[1, 4:], states(network, changed(tensors, "input_ids", 1, place))[1, 4:])
    alone = {"input_ids": tensors["input_ids"][1:, 4:], "position_ids": torch.arange(7)[None]}
    assert torch.allclose(before[1, 4:], states(network, alone)[0], atol=1e-5)
    with pytest.raises(BatchError, match="expected prompts of a continuation padded on the right"):
        network.family.decode(tensors, Cache(11))
