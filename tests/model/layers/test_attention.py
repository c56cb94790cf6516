"""Attention against plain loops over rows, heads and places."""

import math

import pytest
import torch

from clozeline.model.configuration.position import PositionConfig
from clozeline.model.layers.attention import Attention
from clozeline.model.layers.masks import AttentionPlan
from tests.model.small_models import small_config


def made(**changes):
    torch.manual_seed(0)
    layer = Attention(small_config("decoder", **changes)).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return layer


def dot(left, right):
    return sum(a * b for a, b in zip(left, right, strict=True))


def slow(layer, x, source, seen, scale, heads, shared):
    """The mean of the values, weighted by softmax; `seen(row, head, query, key)` gives a bias or None."""
    width = layer.head_dim
    query, key, value = (
        normalize(layer, norm, part(states)).tolist()
        for part, norm, states in (
            (layer.query, layer.query_norm, x), (layer.key, layer.key_norm, source), (layer.value, None, source)
        )
    )  # fmt: skip
    mixed = torch.zeros(*x.shape[:2], heads * width, dtype=torch.float64)
    for row in range(len(x)):
        for head in range(heads):
            own, group = slice(head * width, (head + 1) * width), head // shared
            other = slice(group * width, (group + 1) * width)
            for place in range(x.shape[1]):
                scores = {
                    at: scale * dot(query[row][place][own], key[row][at][other]) + bias
                    for at in range(source.shape[1])
                    if (bias := seen(row, head, place, at)) is not None
                }
                total = sum(math.exp(score) for score in scores.values())
                for at, score in scores.items():
                    mixed[row, place, own] += (
                        math.exp(score) / total * torch.tensor(value[row][at][other], dtype=torch.float64)
                    )
    return layer.out(mixed)


def normalize(layer, norm, states):
    """RMSNorm by its formula, of each head or of all of them."""
    if not getattr(norm, "eps", None):
        return states
    heads = states.unflatten(-1, (-1, len(norm.weight)))
    return (heads / (heads.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight).flatten(-2)


@pytest.mark.parametrize(("kind", "widths"), [("head", (6, 6)), ("all", (24, 12))])
def test_queries_and_keys_have_a_norm_before_the_scores(kind, widths):
    layer = made(kv_heads=2, qk_norm=kind, position=PositionConfig(kind="none"))
    assert (len(layer.query_norm.weight), len(layer.key_norm.weight)) == widths
    x = torch.randn(2, 5, 24, dtype=torch.float64)
    found = layer(x, x, AttentionPlan(None, causal=True))
    slowly = slow(layer, x, x, lambda row, head, place, at: 0.0 if at <= place else None, 6**-0.5, 4, 2)
    assert torch.allclose(found, slowly, atol=1e-10)


@pytest.mark.parametrize(("kv_heads", "scale"), [(4, None), (2, None), (1, 0.3)])
def test_causal_and_grouped_heads_equal_a_plain_loop(kv_heads, scale):
    layer = made(kv_heads=kv_heads, qk_scale=scale)
    x = torch.randn(2, 5, 24, dtype=torch.float64)
    found = layer(x, x, AttentionPlan(None, causal=True))
    slowly = slow(
        layer, x, x, lambda row, head, place, at: 0.0 if at <= place else None, scale or 6**-0.5, 4, 4 // kv_heads
    )
    assert torch.allclose(found, slowly, atol=1e-10)
    assert layer.key.out_features == 6 * kv_heads


def test_a_mask_and_a_bias_apply_to_other_rows_as_they_say():
    layer = made(kv_heads=None, head_dim=5, position=PositionConfig(kind="none"))
    x, source = torch.randn(2, 3, 24, dtype=torch.float64), torch.randn(2, 4, 24, dtype=torch.float64)
    padding = torch.tensor([[True, True, False, True], [True] * 4])[:, None, None]
    found = layer(x, source, AttentionPlan(padding))
    slowly = slow(layer, x, source, lambda row, head, place, at: 0.0 if padding[row, 0, 0, at] else None, 5**-0.5, 4, 1)
    assert torch.allclose(found, slowly, atol=1e-10)
    bias = torch.randn(1, 4, 3, 4)
    found = layer(x, source, AttentionPlan(bias))
    slowly = slow(layer, x, source, lambda row, head, place, at: bias[0, head, place, at].item(), 5**-0.5, 4, 1)
    assert torch.allclose(found, slowly, atol=1e-10)


def test_biases_are_where_the_configuration_says():
    plain = made()
    assert (plain.query.bias, plain.key.bias, plain.value.bias, plain.out.bias) == (None,) * 4
    encoder = Attention(small_config("encoder"))
    assert all(part.bias is not None for part in (encoder.query, encoder.key, encoder.value, encoder.out))
