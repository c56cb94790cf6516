"""Arithmetic of a row, against the products that a forward really computes."""

import re

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from clozeline.model.compilation.host_shapes import add_host_shapes
from clozeline.model.configuration.position import DisentangledConfig, PositionConfig
from tests.model.small_models import batch_for, built


def counted(network, tensors):
    """Products of a forward as torch counts them, all of attention's scores included."""
    family = network.to("meta").family
    tensors = add_host_shapes(tensors, None)
    tensors = {name: value.to("meta") for name, value in tensors.items()}
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        family(tensors)
    return counter.get_total_flops()


def test_local_layers_and_unlike_decoders_count_what_they_see():
    encoder = built("encoder", layers=3, local={"window": 2, "global_every": 2})
    whole = built("encoder", layers=3).family.flops(11, 0)
    near = encoder.family.flops(11, 0)

    assert whole - near == 11 * 4 * 24 * (11 - 5)
    assert encoder.family.flops(4, 0) == built("encoder", layers=3).family.flops(4, 0)

    both = {"head_dim": None, "layers": 1, "decoder_layers": 1}
    wide = built("encoder_decoder", **both, decoder_ffn_dim=50).family.flops(5, 3)

    assert wide - built("encoder_decoder", **both).family.flops(5, 3) == 3 * 2 * 2 * 24 * 10


def test_a_layer_counts_its_own_products():
    network = built("encoder")
    block = network.family.stack.layers[0].feed_forward.body
    block.up, block.down = nn.Linear(24, 60), nn.Linear(60, 24)
    found = network.family.flops(11, 0)

    assert found == counted(network, batch_for("encoder", lengths=[11]))


def test_maps_between_widths_count():
    """Of the embeddings into either stack, and between the stacks."""
    sizes = {"decoder_dim": 16, "emb_dim": 20, "tied": False, "connector": {"hidden_dim": 9}}
    network = built("encoder_decoder", **sizes)

    assert (
        network.family.flops(11, 9)
        == counted(network, batch_for("encoder_decoder", lengths=[11])) - 3 * 4 * 9 * 9 * 20 / 2
    )


@pytest.mark.parametrize(
    "chosen", [{"convolution": 3}, {"mask_decoder": 3, "position_to_content": False}], ids=str
)
def test_relative_places_count_as_torch_counts_them(chosen):
    """All but the projections of relative places, 16 rows from width 24 to 24 in each layer and
    step."""
    position = PositionConfig(maximum=16, disentangled=DisentangledConfig(max_distance=8, **chosen))
    network = built("encoder", position=position)
    found = counted(network, batch_for("encoder", lengths=[11]))
    passes = 2 + 2 * ("mask_decoder" in chosen)
    kinds = 2 - ("mask_decoder" in chosen)

    assert network.family.flops(11, 0) == found - passes * kinds * 2 * 16 * 24 * 24


def test_labels_cost_the_heads_matrices_and_training_three_forwards():
    network = built("encoder")
    head = 2 * (24 * 24 + 37 * 24)

    assert network.heads["masked_lm"].flops() == head

    row = network.family.flops(11, 0)

    assert network.flops(11, labels_per_row=2) == 3 * (row + 2 * head)
    assert network.flops(11) == 3 * (row + 11 * head)


def counted_in_training(network, tensors):
    """Products of a forward and backward pass of the body as torch counts them."""
    family = network.to("meta").family
    tensors = add_host_shapes(tensors, None)
    tensors = {name: value.to("meta") for name, value in tensors.items()}

    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        states = family(tensors)
        if states.requires_grad:
            states.sum().backward()

    return counter.get_total_flops()


QKV = 2 * 11 * 3 * 24 * 24
"""The products for the input of the lowest trained layer, which torch leaves out where nothing
below it trains."""


@pytest.mark.parametrize(
    ("frozen", "left_out"),
    [
        ("nothing", 0),
        (r"stack\.layers\.1\.", 0),
        (r"tokens|stack\.(embeddings|position)", QKV),
        (r"tokens|stack\.(embeddings|position)|stack\.layers\.[01]\.", QKV),
        (r".*", 0),
    ],
)
def test_what_is_frozen_has_no_gradients(frozen, left_out):
    """A frozen layer above a trained one passes gradients on.

    Frozen ones below all others have no backward pass.
    """
    network = built("encoder", layers=3)
    for name, parameter in network.family.named_parameters():
        parameter.requires_grad_(re.match(frozen, name) is None)
    found = counted_in_training(network, batch_for("encoder", lengths=[11]))
    assert network.flops(11, labels_per_row=0) - left_out == found


def test_a_frozen_body_leaves_the_backward_pass_to_the_head():
    network = built("encoder")
    network.family.requires_grad_(False)
    row = network.family.flops(11, 0)
    head = network.heads["masked_lm"].flops()

    assert network.flops(11, labels_per_row=2) == row + 3 * 2 * head

    network.heads["masked_lm"].requires_grad_(False)

    assert (
        network.flops(11, labels_per_row=2)
        == network.forward_flops(11, labels_per_row=2)
        == row + 2 * head
    )


@pytest.mark.parametrize("family", ["encoder", "decoder"])
def test_documents_that_are_kept_apart_cost_what_they_cost_alone(family):
    network = built(family)
    lengths = [3, 7, 1]
    alone = sum(network.flops(length, 0, 0.0) for length in lengths)
    documents = {(length, 0): 1.0 for length in lengths}

    assert network.flops(11, 0, 0.0, documents) == pytest.approx(alone, rel=1e-12)
    assert network.flops(11, 0, 0.0, documents) < network.flops(11, 0, 0.0)
