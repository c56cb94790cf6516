"""Small models with adapters, and peft beside them."""

import copy

import pytest
import torch

from model.adaptation import add_adapter
from tests.model.small_models import batch_for, built

ADAPTERS = {
    "bitfit": ("encoder", {}),
    "bottleneck": ("encoder", {"width": 5}),
    "ia3": ("encoder_decoder", {}),
    "lora": ("decoder", {"rank": 3, "alpha": 6.0, "targets": ["query", "value", "up"]}),
    "prefix": ("decoder", {"length": 4}),
    "prompt": ("encoder_decoder", {"length": 4}),
}
"""Every adapter, with a family that has a place for it."""
MERGED = ("bitfit", "ia3", "lora")


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
    add_adapter(model, "own", {"name": name, **keys})
    model.use_adapter("own")
    if noise:
        disturbed(model.adapters)
    return model


def case(name, **more):
    """The adapter's model of `ADAPTERS`, and a batch."""
    family, keys = ADAPTERS[name]
    return adapted(family, name, **keys, **more), batch_for(family)


def scores(model, tensors):
    """The logits of the one head, without gradients."""
    with torch.no_grad():
        (found,) = model.logits(tensors).values()
    return found


def peft():
    """The library, or a skip with the reason."""
    return pytest.importorskip("peft", reason="peft is a dependency of development only")


def inside_peft(model, config):
    """A copy of a model without adapters, wrapped by peft, and the copy."""
    base = copy.deepcopy(model)
    base.use_adapter(None)
    del base.adapters
    return peft().get_peft_model(base, config), base
