"""Built models: ties, initial weights, dropout, precision."""

import pytest
import torch

from clozeline.errors import BatchError
from clozeline.model.build import build_model
from clozeline.model.registries import FAMILIES
from tests.contracts import contract
from tests.model.small_models import batch_for, built, small_config


@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_counted_by_part_and_tied_ones_once(tied):
    network = built("encoder_decoder", tied=tied)
    parts = network.parameters_by_part

    assert list(parts) == [
        "tokens",
        "encoder",
        "decoder",
        *([] if tied else network.heads),
    ]
    assert parts["tokens"] == network.family.tokens.weight.numel()
    assert sum(parts.values()) == len(torch.nn.utils.parameters_to_vector(network.parameters()))
    assert network.num_parameters() == sum(parts.values())


@contract(FAMILIES, "family")
@pytest.mark.parametrize("autocast", [False, True], ids=["bf16 weights", "autocast"])
def test_bf16_is_near_fp32(family, autocast):
    """Of a model with a generator its own loss: rounding may change the tokens that it draws for
    the other heads."""
    network = built(family).eval()
    tensors = batch_for(family)
    own = [
        name
        for name, head in network.heads.items()
        if head.target in network.family.generator_targets
    ]

    expected = {name: loss.total.item() for name, loss in network(tensors).items()}
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = (network if autocast else network.bfloat16())(tensors)
    for name in own or found:
        assert found[name].total.item() == pytest.approx(expected[name], rel=3e-2)

    assert {loss.total.dtype for loss in found.values()} == {torch.float32}

    sum(loss.total for loss in found.values()).backward()

    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


def test_heads_that_read_the_first_place_refuse_padding_on_the_left():
    network = built("encoder", heads={"masked_lm": 1.0, "sentence": 1.0})
    tensors = batch_for("encoder", lengths=[11, 4]) | {"left_padding": torch.tensor([0, 7])}
    with pytest.raises(BatchError, match="the head sentence reads rows padded on the right only"):
        network.logits(tensors)
    right = built("encoder").logits(tensors)["masked_lm"]

    assert right.isfinite().all()


LORA = {"name": "lora", "rank": 3}


def test_an_adapter_is_counted_and_starts_by_its_name_and_seed():
    network = build_model(small_config("encoder"), 37, {})
    before = dict(network.parameters_by_part)
    adapter = network.adapters.add("a", LORA, seed=4)
    added = sum(parameter.numel() for parameter in adapter.parameters())

    assert network.parameters_by_part == before | {"a": added}
    assert network.num_parameters() == sum(before.values()) + added

    again = build_model(small_config("encoder"), 37, {}, seed=9).adapters.add("a", LORA, seed=4)
    others = [
        network.adapters.add("b", LORA, seed=4),
        network.adapters.add("c", LORA, seed=5),
    ]
    vector = torch.nn.utils.parameters_to_vector
    first, same, *apart = (vector(one.parameters()) for one in (adapter, again, *others))

    assert torch.equal(first, same)
    assert not any(torch.equal(first, one) for one in apart)
