"""The place of the norm, by hand."""

import pytest
import torch

from clozeline.model.layers.residual import Residual
from tests.model.small_models import small_config


class Body(torch.nn.Module):
    """x -> 3x + shift."""

    def forward(self, x, shift):
        return 3 * x + shift


@pytest.mark.parametrize("place", ["pre", "post"])
def test_norm_before_the_body_or_after_the_sum(place):
    torch.manual_seed(0)
    block = Residual(small_config("encoder", norm_place=place), Body()).double()
    torch.nn.init.normal_(block.norm.weight)
    x, shift = torch.randn(2, 3, 24, dtype=torch.float64), torch.randn(24, dtype=torch.float64)

    def norm(values):
        centred = values - values.mean(-1, keepdim=True)
        return centred / (values.var(-1, unbiased=False, keepdim=True) + block.norm.eps).sqrt() * block.norm.weight

    wanted = x + 3 * norm(x) + shift if place == "pre" else norm(x + 3 * x + shift)
    assert torch.allclose(block(x, shift), wanted, atol=1e-9)
