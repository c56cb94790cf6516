"""No forward of pretraining reads a value back to the host: on the meta device there is none to
read."""

import pytest

from clozeline.model.compilation.host_shapes import add_host_shapes
from clozeline.model.registries import FAMILIES, HEADS
from clozeline.tools.start.contracts.heads import batch_of
from tests.contracts import contract
from tests.model.small_models import batch_for, built, head_keys


def without_values(network, tensors):
    """Train on the tensors that an engine moves to an accelerator: the batch as `add_host_shapes`
    leaves it."""
    tensors = add_host_shapes(tensors, None, network.host_tensors)
    losses = network.to("meta")({name: tensor.to("meta") for name, tensor in tensors.items()})

    assert losses

    for loss in losses.values():
        assert loss.total.is_meta
        assert loss.divisor.is_meta
        loss.total.backward()


@pytest.mark.parametrize("padded", [True, False], ids=["padded", "full"])
@contract(FAMILIES, "family")
def test_families(family, padded):
    without_values(built(family), batch_for(family, lengths=None if padded else [11] * 4))


@contract(HEADS, "head")
def test_heads(head):
    network = built("encoder", heads={head: head_keys(head)}, tied=head != "bidirectional_lm")
    without_values(network, batch_of(HEADS.load_class(head)))
