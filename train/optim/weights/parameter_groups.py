"""Group parameters by weight decay and learning rate."""

from collections.abc import Collection
from typing import Any, Final

from torch import nn

from clozeline.errors import ConfigurationError
from clozeline.model.adapters import Adapter
from clozeline.model.layers.norm import NORMS
from clozeline.model.layers.stack import LAYER
from clozeline.model.parameters.sharding import full_shape

_TABLE_ENDINGS: Final = (".segments", ".rows")
"""Name endings of tables outside `nn.Embedding`: XLNet's segment types, rows of adapters."""

DECAYING: Final = ("matrices", "tables", "head")
"""Kinds of parameters that decay by default; the others are `norms` and `biases`."""

_LABELS: Final = {
    (True, True): "decay",
    (False, False): "no_decay",
    (False, True): "decay_vectors",
    (True, False): "no_decay_matrices",
}
"""Name of a group, by whether its parameters have two dimensions, and whether they decay."""

_BELOW: Final = ("family.", "adapters.")
"""Parts of a model below its heads, and below what hooks add to it."""


def parameter_groups(
    model: nn.Module,
    weight_decay: float,
    decays: Collection[str] = DECAYING,
    *,
    by_depth: bool = False,
    separate_matrices: bool = False,
) -> list[dict[str, Any]]:
    """Return named groups of all trainable parameters, each in one group.

    `decay` and `decay_vectors` have the kinds of parameters in `decays`, `no_decay` and
    `no_decay_matrices` the others: vectors are never with matrices and tables. `rate` of a group
    is the factor of its learning rate: parameters with the n-th factor other than 1, from the
    lowest, are in groups `decay.rate_n`, and so on. Empty groups are dropped: ZeRO cannot partition
    them.

    Args:
        model: the model.
        weight_decay: weight decay of the groups `decay`.
        decays: matrices of the body, tables (also tied ones), matrices above the body (`head`),
            norms, biases (all other vectors).
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
    labels = {"matrix": "matrices" in decays}
    labels |= {label: is_decaying for (_, is_decaying), label in _LABELS.items()}

    for depth in range(max(depths.values(), default=0) + 1) if by_depth else [0]:
        ending = f".{depth}" if by_depth else ""
        for label, is_decaying in labels.items():
            for number, rate in enumerate((1.0, *sorted({*rates.values()} - {1.0}))):
                name = f"{label}{f'.rate_{number}' if number else ''}{ending}"
                group = {
                    "name": name,
                    "weight_decay": weight_decay if is_decaying else 0.0,
                    "depth": depth,
                    "rate": rate,
                    "params": [],
                }
                groups[depth, label, rate] = group

    # assign each trainable parameter
    kinds = {
        id(p): "norms" if isinstance(module, NORMS) else "tables"
        for module in model.modules()
        if isinstance(module, (nn.Embedding, *NORMS))
        for p in module.parameters()
    }

    for name, parameter in model.named_parameters():
        dimensions = len(full_shape(parameter))
        if dimensions == 0:
            raise ConfigurationError(f"parameter {name} has no dimension: give it the shape [1]")
        if parameter.requires_grad:
            kind = "tables" if name.endswith(_TABLE_ENDINGS) else kinds.get(id(parameter))
            other = "matrices" if name.startswith(_BELOW) else "head"
            kind = kind or (other if dimensions >= 2 else "biases")
            matrix = separate_matrices and dimensions == 2 and LAYER.match(name) and kind == other
            label = "matrix" if matrix else _LABELS[dimensions >= 2, kind in decays]
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
