"""A layer is its blocks, one after another: attention, the feed-forward block, and the norms around them."""

import pytest
import torch
from torch.nn import functional as F

from clozeline.model.configuration.layer import DropoutConfig
from clozeline.model.layers.layer import FeedForward, Layer, Residual, SelfAttention
from clozeline.model.layers.masks import AttentionPlan
from tests.model.small_models import small_config


@pytest.mark.parametrize("gated", [True, False])
def test_it_is_down_of_the_activated_up_or_of_the_gate_times_up(gated):
    torch.manual_seed(0)
    layer = FeedForward(small_config("decoder", gated=gated, activation="silu"))
    x = torch.randn(2, 5, 24)
    up = x @ layer.up.weight.T
    inner = F.silu(x @ layer.gate.weight.T) * up if gated else F.silu(up)
    assert torch.allclose(layer(x), inner @ layer.down.weight.T, atol=1e-6)
    assert (layer.gate is not None) == gated
    assert {name for name, _ in layer.named_parameters() if "bias" in name} == set()


def test_dropout_stands_before_the_last_projection():
    torch.manual_seed(0)
    layer = FeedForward(small_config("encoder", dropout=DropoutConfig(activation=0.999)))
    seen = []
    layer.down.register_forward_hook(lambda _module, inputs, _out: seen.append(inputs[0]))
    layer(torch.randn(2, 50, 24))
    layer.eval()
    layer(torch.randn(2, 50, 24))
    assert seen[0].eq(0).float().mean() > 0.98
    assert seen[1].eq(0).float().mean() < 0.01


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
