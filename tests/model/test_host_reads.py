"""No forward of pretraining reads a value back to the host: on the meta device there is none to read."""

import pytest

from clozeline.model.compilation.host_shapes import add_host_shapes
from clozeline.registry import find, names
from clozeline.tools.start.contracts.heads import choice_batch, full_batch
from tests.model.small_models import HEADS, batch_for, built, head_keys


def on_meta(tensors, facts):
    """Return the tensors that an engine moves to an accelerator: the batch as `add_host_shapes` leaves it."""
    return {name: tensor.to("meta") for name, tensor in add_host_shapes(tensors, None, facts).items()}


def without_values(network, tensors):
    losses = network.to("meta")(on_meta(tensors, network.host_tensors))
    assert losses
    for loss in losses.values():
        assert loss.total.is_meta
        assert loss.divisor.is_meta
        loss.total.backward()


@pytest.mark.parametrize("padded", [True, False], ids=["padded", "full"])
@pytest.mark.parametrize("family", names("clozeline.model.families"))
def test_families(family, padded):
    tensors = batch_for(family, lengths=None if padded else [11] * 4)
    without_values(built(family), tensors)


@pytest.mark.parametrize("head", [name for name in HEADS if "choices" not in find("clozeline.model.heads", name).needs])
def test_heads(head):
    network = built("encoder", heads={head: head_keys(head)}, tied=head != "bidirectional_lm")
    without_values(network, full_batch())


def test_choices():
    without_values(built("encoder", heads={"multiple_choice": {}}), choice_batch())
