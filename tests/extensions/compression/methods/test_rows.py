import pytest
import torch

from tests.extensions.compression.methods.compressed_models import (
    compressed,
    logits,
    model_of,
    odd_checkpoint,
)
from tests.model.small_models import batch_for
from tests.refusals import refused

CASE = {"keep": 7}


def zeroed(model, smaller, stacks=("stack",)):
    """The larger model, in which units that the smaller one lacks are zero.

    Found by their columns of `down`.
    """
    for stack in stacks:
        for number, layer in enumerate(getattr(model.family, stack).layers):
            body = layer.feed_forward.body
            left = smaller.tensors[f"family.{stack}.layers.{number}.feed_forward.body.down.weight"]
            there = (body.down.weight[:, :, None] == left[:, None]).all(0).any(1)
            body.down.register_forward_pre_hook(lambda _, inputs, there=there: inputs[0] * there)

    return model


@pytest.mark.parametrize("family", ["encoder", "decoder", "encoder_decoder"])
@pytest.mark.parametrize("calibrated", [True, False])
def test_removed_rows_are_masked_rows(family, calibrated):
    dense = odd_checkpoint(family)
    batches = [batch_for(family, seed=seed) for seed in (3, 4)] if calibrated else ()
    smaller = compressed(dense, "rows", batches, keep=4).checkpoint

    assert smaller.config.ffn_dim == 4

    stacks = ("encoder", "decoder") if family == "encoder_decoder" else ("stack",)
    expected = logits(zeroed(model_of(dense), smaller, stacks), batch_for(family))

    assert (logits(model_of(smaller), batch_for(family)) - expected).abs().max() <= 1e-12


def test_without_rows_the_product_of_norms_chooses():
    dense = odd_checkpoint()
    name = "family.stack.layers.0.feed_forward.body."

    with torch.no_grad():
        dense.tensors[f"{name}up.weight"][:] = 1
        dense.tensors[f"{name}down.weight"][:] = torch.arange(11.0)  # unit 0 is the weakest
        dense.tensors[f"{name}up.weight"][5] = 9

    smaller = compressed(dense, "rows", keep=3).checkpoint

    assert smaller.tensors[f"{name}down.weight"][0].tolist() == [5.0, 9.0, 10.0]


def test_a_decoder_of_its_own_width_keeps_its_share():
    config = compressed(
        odd_checkpoint("encoder_decoder", decoder_ffn_dim=21), "rows", sparsity=0.5
    ).checkpoint.config
    assert (config.ffn_dim, config.decoder_ffn_dim) == (6, 10)


@pytest.mark.parametrize(
    ("family", "options", "message"),
    [
        ("encoder", {"keep": 12}, "at most the 11 rows"),
        ("awd_lstm", {"keep": 1}, "no feed-forward"),
    ],
)
def test_rows_that_are_not_there_are_refused(family, options, message):
    with refused(message):
        compressed(odd_checkpoint(family), "rows", **options)
