"""Updates of our maps as those of a fused one, and back; the product is the oracle."""

import pytest
import torch

from clozeline.model.checkpoints._conversion.tables import Target
from clozeline.model.checkpoints._conversion.tensor_layouts import Update, join_updates, split_update

NAMES = ["q", "k", "v"]
OUTPUTS = dict.fromkeys(NAMES, 4)


def siblings(groups):
    return {name: Target("qkv.weight", part, (1, 1, 1), groups, False, None) for part, name in enumerate(NAMES)}


def drawn(seed, rank, scale=2.0):
    draw = torch.Generator().manual_seed(seed)
    return Update(torch.randn(rank, 5, generator=draw), torch.randn(4, rank, generator=draw), scale)


def product(update):
    return update.scale * update.b @ update.a


def rows_of(name, groups):
    """Rows of our map in the fused one, counted by hand: heads of 4 / groups rows, q k v in turn."""
    width = 4 // groups
    start = NAMES.index(name) * width
    return [group * 3 * width + start + row for group in range(groups) for row in range(width)]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("scales", [(2.0, 2.0), (2.0, 0.5)], ids=["one scale", "two scales"])
def test_stacked_updates_have_the_product_of_each(groups, scales):
    updates = {"q": drawn(1, 2, scales[0]), "v": drawn(2, 3, scales[1])}
    joined = join_updates(updates, siblings(groups), OUTPUTS)
    assert joined.a.shape == (5, 5)
    fused = product(joined)
    for name in NAMES:
        expected = product(updates[name]) if name in updates else torch.zeros(4, 5)
        assert torch.allclose(fused[rows_of(name, groups)], expected, atol=1e-6)
    back = split_update(joined, siblings(groups))
    assert back.keys() == updates.keys()
    assert all(torch.equal(back[name].a, updates[name].a) for name in updates)
    assert all(torch.allclose(product(back[name]), product(updates[name]), atol=1e-6) for name in updates)
