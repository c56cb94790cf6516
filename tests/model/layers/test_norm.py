"""Norms in half precision, rounded where the classes of transformers round them."""

import pytest
import torch
from transformers.models import gemma, llama

from clozeline.model.layers.norm import OneRMSNorm, RMSNorm


@pytest.mark.parametrize(
    ("norm", "peer"), [(RMSNorm, "LlamaRMSNorm"), (OneRMSNorm, "GemmaRMSNorm")]
)
def test_half_precision_is_rounded_as_the_class_rounds_it(norm, peer):
    peer = getattr(llama.modeling_llama if norm is RMSNorm else gemma.modeling_gemma, peer)
    torch.manual_seed(0)
    x = 30 * torch.randn(50, 64).bfloat16()
    ours = norm(64, eps=1e-6)
    theirs = peer(64, eps=1e-6)
    with torch.no_grad():
        ours.weight.copy_(torch.randn(64))
        theirs.weight.copy_(ours.weight)

    assert torch.equal(ours.bfloat16()(x), theirs.bfloat16()(x))
