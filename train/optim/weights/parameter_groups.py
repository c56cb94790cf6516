"""Group parameters by weight decay and learning rate."""

import re
from typing import Any, Final

from torch import nn

from clozeline.errors import ConfigurationError
from clozeline.model.adapters import Adapter
from clozeline.model.parameters.sharding import full_shape

LAYER: Final = re.compile(r"(?P<stack>.+)\.layers\.(?P<index>\d+)\.")
"""Start of the name of a layer's parameter."""

_TABLE_ENDINGS: Final = (".segments", ".rows")
"""Name endings of tables outside `nn.Embedding`: XLNet's segment types, rows of adapters."""

_BELOW: Final = ("family.", "adapters.")
"""Parts of a model below its heads, and below what hooks add to it."""


def parameter_groups(
    model: nn.Module,
    weight_decay: float,
    *,
    by_depth: bool = False,
    separate_matrices: bool = False,
) -> list[dict[str, Any]]:
    """Return named groups of all trainable parameters, each in one group.

    `decay` has matrices and tables, `no_decay` biases, norms and other vectors. `rate` of a group
    is the factor of its learning rate: parameters with the n-th factor other than 1, from the
    lowest, are in groups `decay.rate_n`, and so on. Empty groups are dropped: ZeRO cannot partition
    them.

    Args:
        model: the model.
        weight_decay: weight decay of the groups `decay`.
        by_depth: separate groups for each depth below the heads, named `decay.DEPTH` and
            `no_decay.DEPTH`.
        separate_matrices: put matrices of layers, but no tables, into groups `matrix` instead of
            `decay`.

    Raises:
        ConfigurationError: a parameter is a scalar, which looks like a scalar optimizer state.
    """
    # empty groups in a fixed order
    depths = depths_below_heads(model)
    rates = learning_rate_factors(model)
    groups: dict[tuple[int, str, float], dict[str, Any]] = {}

    for depth in range(max(depths.values(), default=0) + 1) if by_depth else [0]:
        ending = f".{depth}" if by_depth else ""
        for label, decay in (("matrix", weight_decay), ("decay", weight_decay), ("no_decay", 0.0)):
            for number, rate in enumerate((1.0, *sorted({*rates.values()} - {1.0}))):
                name = f"{label}{f'.rate_{number}' if number else ''}{ending}"
                group = {
                    "name": name,
                    "weight_decay": decay,
                    "depth": depth,
                    "rate": rate,
                    "params": [],
                }
                groups[depth, label, rate] = group

    # assign each trainable parameter
    tables = {
        id(p)
        for module in model.modules()
        if isinstance(module, nn.Embedding)
        for p in module.parameters()
    }

    for name, parameter in model.named_parameters():
        dimensions = len(full_shape(parameter))
        if dimensions == 0:
            raise ConfigurationError(f"parameter {name} has no dimension: give it the shape [1]")
        if parameter.requires_grad:
            table = id(parameter) in tables or name.endswith(_TABLE_ENDINGS)
            matrix = separate_matrices and dimensions == 2 and LAYER.match(name) and not table
            label = "matrix" if matrix else "decay" if dimensions >= 2 else "no_decay"
            depth = depths[name] if by_depth else 0
            groups[depth, label, rates.get(id(parameter), 1.0)]["params"].append(parameter)

    return [group for group in groups.values() if group["params"]]


def learning_rate_factors(model: nn.Module) -> dict[int, float]:
    """Return `id` of parameter → factor of its learning rate, from adapters."""
    adapters = (module for module in model.modules() if isinstance(module, Adapter))
    pairs = (pair for adapter in adapters for pair in adapter.learning_rate_factors().items())
    return {id(parameter): factor for parameter, factor in pairs}


def depths_below_heads(model: nn.Module) -> dict[str, int]:
    """Return the depth of each parameter below the heads.

    It is 0 for heads and final norms, and 1 for the last layer. Embeddings, also tied ones, are one
    below the first layer of the highest stack.
    """
    # layers of each stack
    layers: dict[str, int] = {}
    names = [name for name, _ in model.named_parameters()]
    for match in filter(None, map(LAYER.match, names)):
        layers[match["stack"]] = max(layers.get(match["stack"], 0), int(match["index"]) + 1)

    # depths, from the top
    bottom = max(layers.values(), default=0) + 1
    depths = {}

    for name in names:
        layer = LAYER.match(name)
        if layer is not None:
            depths[name] = layers[layer["stack"]] - int(layer["index"])
        elif not name.startswith(_BELOW) or name.rpartition(".norm.")[0] in layers:
            depths[name] = 0
        else:
            depths[name] = bottom

    return depths
