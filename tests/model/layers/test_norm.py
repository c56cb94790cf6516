"""Norms against their formulas."""

import pytest
import torch
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm

from clozeline.model.layers.norm import NoNorm, OneRMSNorm, RMSNorm, build_norm
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


def test_a_weight_of_0_is_a_gain_of_1():
    torch.manual_seed(0)
    x, weight = torch.randn(5, 24), torch.randn(24)
    fresh, plain = OneRMSNorm(24, eps=1e-6), RMSNorm(24, eps=1e-6)
    assert torch.equal(fresh(x), plain(x))
    with torch.no_grad():
        fresh.weight.copy_(weight)
    by_hand = x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-6).sqrt() * (1 + weight.double())
    assert torch.allclose(fresh(x).double(), by_hand, atol=1e-5)


def test_half_precision_is_rounded_once_as_gemmas_class_rounds_it():
    torch.manual_seed(0)
    x, ours, theirs = torch.randn(50, 64).bfloat16(), OneRMSNorm(64, eps=1e-6), GemmaRMSNorm(64, eps=1e-6)
    with torch.no_grad():
        ours.weight.copy_(torch.randn(64))
        theirs.weight.copy_(ours.weight)
    assert torch.equal(ours.bfloat16()(x), theirs.bfloat16()(x))


@pytest.mark.parametrize(("norm", "mean"), [("layer", 0.0), ("rms", None), ("rms_one", None)])
def test_the_configuration_chooses(norm, mean):
    torch.manual_seed(0)
    built = build_norm(small_config("encoder", norm=norm, eps=1e-9), 24)
    out = built(torch.randn(5, 24) + 3)
    assert torch.allclose(out.square().mean(-1), torch.ones(5), atol=1e-4)
    assert (mean is not None) == torch.allclose(out.mean(-1), torch.zeros(5), atol=1e-5)
