"""Norms of a residual block, by hand."""

import pytest
import torch

from clozeline.model.layers.residual import Residual
from tests.model.small_models import small_config


class Body(torch.nn.Module):
    """x -> 3x + shift."""

    def forward(self, x, shift):
        return 3 * x + shift


@pytest.mark.parametrize("normed", [True, False])
@pytest.mark.parametrize("place", ["pre", "post", "both", "branch"])
def test_norms_are_where_the_configuration_says(place, normed):
    torch.manual_seed(0)
    block = Residual(small_config("encoder", norm_place=place), Body(), normed=normed).double()
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter)
    x, shift = torch.randn(2, 3, 24, dtype=torch.float64), torch.randn(24, dtype=torch.float64)

    def apply(norm, values):
        if isinstance(norm, torch.nn.Identity):
            return values
        centred = values - values.mean(-1, keepdim=True)
        unit = centred / (values.var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt()
        return unit * norm.weight + norm.bias

    norm, branch = block.norm, block.branch_norm
    wanted = {
        "pre": x + 3 * apply(norm, x) + shift,
        "post": apply(norm, x + 3 * x + shift),
        "both": x + apply(branch, 3 * apply(norm, x) + shift),
        "branch": x + apply(branch, 3 * x + shift),
    }
    assert torch.allclose(block(x, shift), wanted[place], atol=1e-9)
    count = {"pre": normed, "post": normed, "both": 1 + normed, "branch": 1}[place]
    assert len(list(block.parameters())) == 2 * count
