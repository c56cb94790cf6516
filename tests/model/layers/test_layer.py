"""A layer is its blocks, one after another."""

import pytest
import torch

from clozeline.model.layers.layer import Layer, SelfAttention
from clozeline.model.layers.masks import AttentionPlan
from tests.model.small_models import small_config


@pytest.mark.parametrize("cross", [False, True])
def test_blocks_follow_each_other(cross):
    torch.manual_seed(0)
    layer = Layer(small_config("decoder"), cross=cross)
    x, source = torch.randn(2, 5, 24), torch.randn(2, 3, 24)
    plan = AttentionPlan(None, causal=True)
    source_plan = AttentionPlan(torch.tensor([[True, True, False], [True] * 3])[:, None, None])
    normed = layer.attention.norm(x)
    wanted = x + super(SelfAttention, layer.attention.body).forward(normed, normed, plan)
    if cross:
        wanted = wanted + layer.cross.body(layer.cross.norm(wanted), source, source_plan)
    wanted = wanted + layer.feed_forward.body(layer.feed_forward.norm(wanted))
    found = layer(x, plan, source, source_plan)
    assert torch.allclose(found, wanted, atol=1e-6)
    other = layer(x, plan, source + 1, source_plan)
    assert torch.equal(found, other) != cross, "only cross-attention reads the source"


@pytest.mark.parametrize("parallel", ["two_norms", "one_norm"])
def test_parallel_blocks_read_the_same_states(parallel):
    torch.manual_seed(0)
    layer = Layer(small_config("decoder", parallel=parallel), cross=False)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    x, plan = torch.randn(2, 5, 24), AttentionPlan(None, causal=True)
    first = layer.attention.norm(x)
    second = first if parallel == "one_norm" else layer.feed_forward.norm(x)
    attended = super(SelfAttention, layer.attention.body).forward(first, first, plan)
    wanted = x + attended + layer.feed_forward.body(second)
    assert torch.allclose(layer(x, plan, None, plan), wanted, atol=1e-5)
    assert ("feed_forward.norm.weight" in layer.state_dict()) == (parallel == "two_norms")


def test_cross_attention_reads_no_padding_of_the_source():
    torch.manual_seed(0)
    layer = Layer(small_config("decoder"), cross=True)
    x, source = torch.randn(2, 5, 24), torch.randn(2, 3, 24)
    source_plan = AttentionPlan(torch.tensor([[True, True, False], [True] * 3])[:, None, None])
    plan = AttentionPlan(None, causal=True)
    changed = source.clone()
    changed[:, 2] += 1
    before, after = layer(x, plan, source, source_plan), layer(x, plan, changed, source_plan)
    assert torch.equal(before[0], after[0])
    assert not torch.equal(before[1], after[1])
