"""Rounded weights in training and integers after it, against torchao's own quantization of a linear
map."""

import copy
import sys

import pytest
import torch
from torch import nn

from clozeline.model.build import Model
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.layers.quantization import (
    RoundedLinear,
    holds_integers,
    quantizable_maps,
    quantize_weight,
    round_values,
)
from tests.extensions.compression.methods.compressed_models import checkpoint_of, compressed
from tests.model.small_models import VOCABULARY, batch_for, built, small_config
from tests.refusals import refused

pytest.importorskip("torchao")

KINDS = ("int8", "int8_dynamic", "int4")
FAMILIES = ("encoder", "decoder", "encoder_decoder", "mobilebert", "replaced_tokens", "xlnet")
WIDE = {"dim": 32, "emb_dim": None, "head_dim": 16, "ffn_dim": 64}
"""Widths that groups of 32 divide."""
CASES = [(family, kind) for family in FAMILIES for kind in KINDS]
for family in ("mobilebert", "replaced_tokens"):  # their small models have widths of their own
    CASES.remove((family, "int4"))


def by_torchao(linear, kind):
    """What torchao makes of a linear map; int4 as the page says it."""
    from torchao import quantization

    configs = {
        "int8": quantization.Int8WeightOnlyConfig(),
        "int8_dynamic": quantization.Int8DynamicActivationInt8WeightConfig(),
        "int4": quantization.IntxWeightOnlyConfig(torch.int4, quantization.PerGroup(32)),
    }

    holder = nn.ModuleList([copy.deepcopy(linear)])
    quantization.quantize_(holder, configs[kind])
    return holder[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_rounded_map_computes_what_torchao_does(kind):
    torch.manual_seed(1)
    linear = nn.Linear(64, 48)
    x = torch.randn(3, 5, 64)
    rounded = copy.deepcopy(linear)
    rounded.__class__ = RoundedLinear
    rounded.quantization = kind
    expected = by_torchao(linear, kind)

    with torch.no_grad():
        assert (rounded(x) - expected(x)).abs().max() <= 1e-5
        assert (rounded(x) - linear(x)).abs().max() > 1e-3
        found = quantize_weight(linear.weight, kind)
        assert holds_integers(found)
        assert torch.equal(found.qdata, expected.weight.qdata)
        assert torch.equal(found.scale, expected.weight.scale)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_pass_straight_through(kind):
    torch.manual_seed(2)
    linear = nn.Linear(32, 8)
    x = torch.randn(4, 32)
    linear.__class__ = RoundedLinear
    linear.quantization = kind
    linear(x).sum().backward()
    with torch.no_grad():
        read = round_values(x, "int8") if kind == "int8_dynamic" else x
        assert torch.allclose(linear.weight.grad, read.sum(0).expand(8, 32))


@pytest.mark.parametrize(("family", "kind"), CASES)
def test_a_training_computes_what_its_integers_do(family, kind):
    sizes = WIDE if kind == "int4" else {}
    trained = built(family, **sizes, quantization=kind).eval()
    stored = build_checkpoint(compressed(checkpoint_of(trained), kind).checkpoint)
    dense = built(family, **sizes).eval()
    dense.load_state_dict(trained.state_dict())
    batch = batch_for(family)
    with torch.no_grad():
        found, expected, other = (model.logits(batch) for model in (stored, trained, dense))
    for head in expected:
        # an input may round to the next integer: by 1.1e-2 on one processor
        limit = 2e-2 if kind == "int8_dynamic" else 1e-5
        assert (found[head] - expected[head]).norm() <= limit * expected[head].norm()
        assert not torch.equal(found[head], other[head])


def test_heads_and_tables_stay():
    stored = build_checkpoint(compressed(checkpoint_of(built("encoder")), "int8").checkpoint)
    integers = [name for name, parameter in stored.named_parameters() if holds_integers(parameter)]

    assert len(integers) == 12
    assert all(name.startswith("family.stack.") for name in integers)
    assert stored.heads["masked_lm"].projection.weight is stored.family.tokens.weight
    assert stored.parameters_by_part == built("encoder").parameters_by_part


def test_what_has_no_integers_is_refused():
    with refused("expected a family with linear maps"):
        quantizable_maps(built("awd_lstm"), "int8")
    with refused(r"layers\.0\.\S+: its width 24 is not a multiple of 32.*; use int8"):
        Model(small_config("encoder", quantization="int4"), VOCABULARY)

    with refused(r"trained for model\.quantization=int8, got int8_dynamic"):
        compressed(checkpoint_of(built("encoder", quantization="int8")), "int8_dynamic")


def test_sharded_parameters_count_with_their_full_shape():
    """DeepSpeed's stage 3 leaves empty tensors, and their shapes in `ds_shape`."""
    model = built("encoder", **WIDE)
    for parameter in model.parameters():
        parameter.ds_shape = parameter.shape
        parameter.data = torch.empty(0)
    assert len(quantizable_maps(model, "int4")) == 12


def test_without_torchao_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchao.quantization", None)

    for act in (
        lambda: quantize_weight(torch.ones(2, 2), "int8"),
        lambda: built("encoder", quantization="int8"),
    ):
        with refused(r"needs torchao: pip install 'clozeline\[torchao\]'"):
            act()
