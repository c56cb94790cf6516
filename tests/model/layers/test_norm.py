"""Norms against their formulas."""

import pytest
import torch

from clozeline.model.layers.norm import NoNorm, RMSNorm, build_norm
from tests.model.small_models import small_config


def test_rms_norm_by_hand():
    norm = RMSNorm(2, eps=1e-6)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0]))
    assert norm(torch.tensor([[3.0, 4.0]]))[0].tolist() == pytest.approx([3 / 12.5**0.5, 8 / 12.5**0.5])


def test_no_norm_by_hand():
    norm = NoNorm(2)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0]))
        norm.bias.copy_(torch.tensor([0.5, -1.0]))
    assert norm(torch.tensor([[3.0, 4.0]])).tolist() == [[3.5, 7.0]]


def test_rms_statistics_are_taken_in_fp32():
    torch.manual_seed(0)
    x = (torch.randn(50, 64) * 30).bfloat16()
    exact = x.double() * (x.double().square().mean(-1, keepdim=True)).rsqrt()
    assert torch.equal(RMSNorm(64, eps=1e-12).bfloat16()(x), exact.bfloat16())


@pytest.mark.parametrize(("norm", "mean"), [("layer", 0.0), ("rms", None)])
def test_the_configuration_chooses(norm, mean):
    torch.manual_seed(0)
    built = build_norm(small_config("encoder", norm=norm, eps=1e-9), 24)
    out = built(torch.randn(5, 24) + 3)
    assert torch.allclose(out.square().mean(-1), torch.ones(5), atol=1e-4)
    assert (mean is not None) == torch.allclose(out.mean(-1), torch.zeros(5), atol=1e-5)
