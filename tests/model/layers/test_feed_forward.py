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
