"""The feed-forward block against its formulas, in fp64."""

import pytest
import torch

from clozeline.model.layers.layer import FeedForward
from tests.model.small_models import small_config


@pytest.mark.parametrize("gated", [False, True])
def test_a_norm_stands_before_the_last_map(gated):
    config = small_config("encoder", ffn_norm=True, gated=gated, activation="relu", eps=1e-3)
    torch.manual_seed(0)
    block = FeedForward(config).double().eval()
    x = torch.randn(3, config.dim, dtype=torch.float64)

    inner = torch.relu(x @ (block.gate or block.up).weight.T + (block.gate or block.up).bias)
    if gated:
        inner = inner * (x @ block.up.weight.T + block.up.bias)
    centered = inner - inner.mean(-1, keepdim=True)
    normed = centered / (centered.square().mean(-1, keepdim=True) + 1e-3).sqrt()

    torch.testing.assert_close(block(x), normed @ block.down.weight.T + block.down.bias)


def test_of_three_maps_the_last_alone_has_a_bias():
    block = FeedForward(small_config("encoder", bias={"ffn": "down"}, gated=True))
    assert {name for name, _ in block.named_parameters() if name.endswith("bias")} == {"down.bias"}


def test_relu_squared():
    block = FeedForward(small_config("encoder", activation="relu_squared", bias={"ffn": False}))
    x = torch.randn(3, block.up.in_features)
    inner = (x @ block.up.weight.T).clamp(min=0) ** 2
    torch.testing.assert_close(block(x), inner @ block.down.weight.T)
