import pytest
import torch

from clozeline.model.configuration.layer import BiasConfig, InitConfig
from clozeline.model.configuration.position import PositionConfig
from tests.model.small_models import batch_for, built, changed, states, total

SMALL = {
    "decoder_layers": 3,
    "norm": "rms",
    "activation": "relu",
    "head_dim": 5,
    "qk_scale": 1.0,
    "out_scale": True,
    "bias": BiasConfig(qkv=False, out=False, ffn=False),
    "position": PositionConfig(kind="t5", buckets=8, max_distance=12),
    "init": InitConfig(scheme="t5"),
    "heads": {"lm": 1.0},
}


@pytest.mark.parametrize("hidden", [None, 7])
def test_a_connector_maps_what_a_decoder_of_another_width_attends_to(hidden):
    """A decoder of its own, asked with states that are mapped by hand, says the same."""
    sizes = {"decoder_dim": 16, "decoder_attention_heads": 2, "head_dim": None, "tied": False}
    network = built("encoder_decoder", connector={"hidden_dim": hidden}, **sizes)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    tensors = batch_for("encoder_decoder", lengths=[11, 11])
    weights = dict(network.family.connector.named_parameters())

    with torch.no_grad():
        x = network.family.layer_states(tensors)[-1]

        assert x.shape == (2, 11, 24)

        if hidden:
            x = (x @ weights["enter.weight"].T + weights["enter.bias"]).clamp(min=0)
        x = x @ weights["leave.weight"].T + weights["leave.bias"]
        if hidden:
            x = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weights["norm.weight"]
        places = tensors["decoder_position_ids"]
        vectors = network.family.tokens(tensors["decoder_input_ids"])
        expected = network.family.decoder(vectors, places, None, None, x, None)

    assert expected.shape == (2, 9, 16)
    assert torch.allclose(states(network, tensors), expected, atol=1e-5)

    total(network, tensors).backward()

    assert all(parameter.grad.abs().sum() > 0 for parameter in network.parameters())


def test_a_document_reads_its_own_source_and_its_own_target_alone():
    network = built("encoder_decoder")
    tensors = batch_for("encoder_decoder", lengths=[6, 11])
    tensors["document_ids"] = (torch.arange(11) >= 5).long().expand(2, -1)
    tensors["decoder_document_ids"] = (torch.arange(9) >= 4).long().expand(2, -1)
    before = states(network, tensors)

    for name, place, first in (
        ("input_ids", 2, True),
        ("input_ids", 8, False),
        ("decoder_input_ids", 0, True),
    ):
        after = states(network, changed(tensors, name, 1, place))
        assert torch.equal(before[1, :4], after[1, :4]) != first
        assert torch.equal(before[1, 4:], after[1, 4:]) == first
