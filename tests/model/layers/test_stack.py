"""A stack: embeddings, layers in order, and the norm at the end."""

import pytest

from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.layers.stack import shared_layers
from tests.model.closeness import FLOAT32, assert_gradients_close, gradients
from tests.model.small_models import batch_for, built, total


def test_groups_are_counted_as_the_published_code_counts_them():
    assert shared_layers(12, 1, 1) == [0] * 12
    assert shared_layers(12, None, 1) == list(range(12))
    assert shared_layers(7, 3, 1) == [0, 0, 0, 1, 1, 2, 2]
    assert shared_layers(8, 2, 2) == [0, 1, 0, 1, 2, 3, 2, 3]
    assert shared_layers(27, 21, 1)[9] == 6, "9 / (27 / 21) is 6.99 in floating point"


SHARED = {
    "encoder": ({"layers": 4, "share": ShareConfig(groups=1)}, 1),
    "groups": ({"layers": 6, "share": ShareConfig(groups=2)}, 2),
    "pairs": (
        {
            "layers": 4,
            "share": ShareConfig(groups=1, group_layers=2),
        },
        2,
    ),
    "stacks": ({"layers": 3, "share": ShareConfig(stacks=True)}, 3),
    "all": (
        {
            "layers": 3,
            "share": ShareConfig(groups=1, stacks=True),
        },
        1,
    ),
}
"""Changes of a small configuration, and the layers that have weights of their own."""


def apart(network, family, changes):
    """The same model without sharing: a copy of the weights at each of their uses."""
    twin = built(family, **{**changes, "share": ShareConfig()})
    order = (
        network.family.encoder.order if family == "encoder_decoder" else network.family.stack.order
    )
    shared = network.state_dict()
    for name, parameter in twin.named_parameters():
        parameter.data = shared[of_shared(name, order)].clone()
    return twin


def of_shared(name, order):
    head, found, rest = name.partition(".layers.")
    place, _, rest = rest.partition(".")
    return f"{head}{found}{order[int(place)]}.{rest}" if found else name


@pytest.mark.parametrize("case", SHARED)
def test_a_shared_layer_gets_the_gradient_of_all_its_uses(case):
    changes, distinct = SHARED[case]
    family = "encoder_decoder" if "all" in case or "stacks" in case else "encoder"
    network = built(family, **changes)
    twin = apart(network, family, changes)
    tensors = batch_for(family)
    loss = total(network, tensors)
    other = total(twin, tensors)

    assert loss.item() == pytest.approx(other.item(), rel=1e-6)

    loss.backward()
    other.backward()
    order = (network.family.encoder if family == "encoder_decoder" else network.family.stack).order

    assert len(set(order)) == distinct

    names = {id(parameter): name for name, parameter in network.named_parameters()}
    sums = dict.fromkeys(names.values(), 0)
    everywhere = dict(network.named_parameters(remove_duplicate=False))
    for name, parameter in twin.named_parameters():
        sums[names[id(everywhere[of_shared(name, order)])]] += parameter.grad

    assert_gradients_close(gradients(network), sums, FLOAT32)
