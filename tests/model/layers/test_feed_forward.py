"""The feed-forward block against its formula."""

import pytest
import torch
from torch.nn import functional as F

from clozeline.model.configuration.layer import DropoutConfig
from clozeline.model.layers.feed_forward import FeedForward
from tests.model.small_models import small_config


@pytest.mark.parametrize("gated", [True, False])
def test_it_is_down_of_the_activated_up_or_of_the_gate_times_up(gated):
    torch.manual_seed(0)
    layer = FeedForward(small_config("decoder", gated=gated, activation="silu"))
    x = torch.randn(2, 5, 24)
    up = x @ layer.up.weight.T
    inner = F.silu(x @ layer.gate.weight.T) * up if gated else F.silu(up)
    assert torch.allclose(layer(x), inner @ layer.down.weight.T, atol=1e-6)
    assert (layer.gate is not None) == gated
    assert {name for name, _ in layer.named_parameters() if "bias" in name} == set()


def test_dropout_stands_before_the_last_projection():
    torch.manual_seed(0)
    layer = FeedForward(small_config("encoder", dropout=DropoutConfig(activation=0.999)))
    seen = []
    layer.down.register_forward_hook(lambda _module, inputs, _out: seen.append(inputs[0]))
    layer(torch.randn(2, 50, 24))
    layer.eval()
    layer(torch.randn(2, 50, 24))
    assert seen[0].eq(0).float().mean() > 0.98
    assert seen[1].eq(0).float().mean() < 0.01
