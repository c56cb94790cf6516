"""The projection onto the vocabulary in each form, against torch's own modules with the same weights."""

import pytest
import torch
from torch.nn import functional as F

from clozeline.model.configuration.head import HeadConfig
from tests.model.small_models import VOCABULARY, batch_for, built, only, total

FORMS = {
    "linear": ("lm", {"projection": "linear"}, {"weight"}),
    "biased": ("lm", {"projection": "biased"}, {"weight", "bias"}),
    "transformed": ("lm", {"projection": "transformed"}, {"weight", "bias"}),
    "masked": ("masked_lm", {}, {"weight", "bias"}),
    "masked biased": ("masked_lm", {"transform": False}, {"weight", "bias"}),
}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_scores_are_those_of_its_parts(form, tied):
    name, keys, of_projection = FORMS[form]
    network = built("decoder", heads={name: HeadConfig(**keys)}, tied=tied, norm="layer").eval()
    head = network.heads[name]
    assert {name for name, _ in head.projection.named_parameters()} == of_projection
    assert (head.projection.weight is network.family.tokens.weight) == tied
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=draw)
        hidden = torch.randn(3, 24, generator=draw)
        states = hidden
        if form in ("transformed", "masked"):
            states = F.silu(F.linear(hidden, head.transform.weight, head.transform.bias))
            states = F.layer_norm(states, (24,), head.norm.weight, head.norm.bias, network.config.eps)
        bias = head.projection.bias if "bias" in of_projection else None
        expected = F.linear(states, head.projection.weight, bias)
        assert expected.shape == (3, VOCABULARY)
        assert torch.allclose(head.logits(hidden), expected, atol=1e-5)


@pytest.mark.parametrize("form", ["biased", "transformed"])
def test_every_parameter_of_the_head_learns(form):
    network = built("decoder", heads={"lm": {"projection": form}})
    tensors = batch_for("decoder")
    assert only(network(tensors)).count == 8
    total(network, tensors).backward()
    assert all(parameter.grad.any() for parameter in network.heads.parameters())
