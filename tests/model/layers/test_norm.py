"""Norms against their formulas."""

import torch
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm

from clozeline.model.layers.norm import OneRMSNorm, RMSNorm


def test_rms_statistics_are_taken_in_fp32():
    torch.manual_seed(0)
    x = (torch.randn(50, 64) * 30).bfloat16()
    exact = x.double() * (x.double().square().mean(-1, keepdim=True)).rsqrt()
    assert torch.equal(RMSNorm(64, eps=1e-12).bfloat16()(x), exact.bfloat16())


def test_half_precision_is_rounded_once_as_gemmas_class_rounds_it():
    torch.manual_seed(0)
    x, ours, theirs = torch.randn(50, 64).bfloat16(), OneRMSNorm(64, eps=1e-6), GemmaRMSNorm(64, eps=1e-6)
    with torch.no_grad():
        ours.weight.copy_(torch.randn(64))
        theirs.weight.copy_(ours.weight)
    assert torch.equal(ours.bfloat16()(x), theirs.bfloat16()(x))
