"""A stack: embeddings, layers in order, and the norm at the end."""

import pytest
import torch

from model.config import DropoutConfig, PositionConfig
from model.layers.stack import Stack
from model.masks import plan_attention
from tests.model.small_models import small_config


def made(family="decoder", **changes):
    torch.manual_seed(0)
    config = small_config(family, **{"position": PositionConfig(kind="none"), **changes})
    stack = Stack(config, 3, causal=family == "decoder")
    for parameter in stack.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return stack


@pytest.mark.parametrize("final_norm", [True, False])
def test_layers_are_applied_in_order_and_a_final_norm_if_asked(final_norm):
    stack = made(final_norm=final_norm, emb_norm=False)
    vectors, places = torch.randn(2, 5, 24), torch.arange(5).expand(2, 5)
    x, plan = vectors, plan_attention(None, None, causal=True)
    for layer in stack.layers:
        x = layer(x, plan, None, plan)
    assert len(stack.layers) == 3
    assert torch.allclose(stack(vectors, places, None, None), stack.norm(x) if final_norm else x, atol=1e-6)
    assert isinstance(stack.norm, torch.nn.Identity) != final_norm
    stack.layers = torch.nn.ModuleList(reversed(stack.layers))
    assert not torch.allclose(stack(vectors, places, None, None), stack.norm(x), atol=1e-3)


def test_dropout_of_the_output_comes_last():
    stack = made(norm="layer", dropout=DropoutConfig(output=0.5))
    out = stack(torch.randn(2, 50, 24), torch.arange(50).expand(2, 50), None, None)
    assert 0.4 < out.eq(0).float().mean().item() < 0.6


def test_an_encoder_without_positions_follows_a_permutation_of_its_tokens():
    """Attention knows no order of its own; a causal stack does."""
    vectors, places = torch.randn(1, 6, 24), torch.arange(6)[None]
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    for family, equal in (("encoder", True), ("decoder", False)):
        stack = made(family, type_vocab_size=0)
        permuted = stack(vectors[:, order], places, None, None)
        assert torch.allclose(stack(vectors, places, None, None)[:, order], permuted, atol=1e-5) == equal
