import pytest

from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.configuration.position import LocalConfig, PositionConfig
from tests.extensions.compression.methods.compressed_models import (
    compressed,
    logits,
    model_of,
    odd_checkpoint,
)
from tests.model.small_models import batch_for
from tests.refusals import refused

CASE = {"keep": (0, 2)}


def skipping(model, stack, kept):
    """The model with all layers of a stack, in which the others return their input."""
    for number, layer in enumerate(getattr(model.family, stack).layers):
        if number not in kept:
            layer.forward = lambda x, *_: x
    return model


LOCAL = "sliding_attention"
FULL = "full_attention"
LISTED = {"local": LocalConfig(window=2, layer_types=(LOCAL, FULL, LOCAL, LOCAL, FULL))}
UNROTATED = {"position": PositionConfig(kind="rope", nope_layers=(1, 4))}


@pytest.mark.parametrize(
    ("family", "keep", "changes"),
    [
        *(("encoder", keep, {}) for keep in ((0, 2, 4), (1,), (0, 1, 2, 3, 4))),
        ("decoder", (0, 2, 4), UNROTATED),
        ("encoder", (1, 3, 4), LISTED),
    ],
)
def test_the_smaller_model_is_the_larger_one_with_skipped_layers(family, keep, changes):
    """Also where some layers have no rotation, or a type of their own."""
    dense = odd_checkpoint(family, **changes)
    smaller = compressed(dense, "layers", keep=keep).checkpoint
    assert smaller.config.layers == len(keep)
    expected = logits(skipping(model_of(dense), "stack", keep), batch_for(family))
    assert (logits(model_of(smaller), batch_for(family)) - expected).abs().max() <= 1e-12


def test_both_stacks_of_an_encoder_decoder_are_cut_by_themselves():
    dense = odd_checkpoint("encoder_decoder", decoder_layers=4)
    smaller = compressed(dense, "layers", keep=(1, 4), keep_decoder=(0, 3)).checkpoint

    assert (smaller.config.layers, smaller.config.decoder_depth) == (2, 2)

    whole = skipping(skipping(model_of(dense), "encoder", (1, 4)), "decoder", (0, 3))
    tensors = batch_for("encoder_decoder")

    assert (logits(model_of(smaller), tensors) - logits(whole, tensors)).abs().max() <= 1e-12
    assert compressed(dense, "layers", keep=(1, 4)).checkpoint.config.decoder_depth == 4


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"keep": (0, 5)}, "layers 0 to 4, got 5"),
        ({}, {"keep": (2, 1)}, "ascending"),
        ({}, {"keep": (1, 1)}, "different layers"),
        ({}, {"keep": (1,), "keep_decoder": (0,)}, "has one stack"),
        ({"share": ShareConfig(groups=1)}, {"keep": (0,)}, "share"),
        ({"local": LocalConfig(window=2, global_every=3)}, {"keep": (0, 3)}, "such layers stay"),
        ({"scale_by_depth": True}, {"keep": (0, 2)}, "scale_by_depth"),
        ({"first_norm": False, "norm_place": "pre"}, {"keep": (1, 2)}, "first_norm"),
    ],
)
def test_layers_that_cannot_be_kept_are_refused(changes, options, message):
    with refused(message):
        compressed(odd_checkpoint(**changes), "layers", **options)
