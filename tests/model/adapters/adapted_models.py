"""Small models with adapters, and peft beside them."""

import pytest
import torch

from clozeline.model.adapters import Adapter
from clozeline.model.registries import ADAPTERS
from tests.declarations import declared
from tests.model.small_models import batch_for, built

NAMES = ADAPTERS.available()
MERGED = [name for name in NAMES if ADAPTERS.load_class(name).merge is not Adapter.merge]


def case_of(name):
    """A family that has a place for an adapter, and keys of the adapter: `CASE` of its own test
    file, or defaults."""
    return declared("clozeline.model.adapters", name, "CASE", ("decoder", {}))


def takes_places(name):
    """Whether an adapter takes places of the table from the rows."""
    family, keys = case_of(name)
    return ADAPTERS.load_class(name).Options(**keys).position_count(family) > 0


def disturbed(adapters, seed=7):
    """Adapters with noise in their parameters: as they begin, most change nothing."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in adapters.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=draw)
    return adapters


def adapted(family, name, /, *, noise=True, changes=(), **keys):
    """A small model in evaluation mode that uses an adapter of this name and these keys."""
    model = built(family, **dict(changes)).eval()
    model.adapters.add("own", {"name": name, **keys})
    model.adapters.use("own")
    if noise:
        disturbed(model.adapters)
    return model


def case(name, **more):
    family, keys = case_of(name)
    return adapted(family, name, **keys, **more), batch_for(family)


def scores(model, tensors):
    with torch.no_grad():
        (found,) = model.logits(tensors).values()
    return found


def peft():
    return pytest.importorskip("peft", reason="peft is a dependency of development only")
