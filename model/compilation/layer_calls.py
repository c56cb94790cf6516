"""Wrap the calls of layers and heads: activation checkpointing and compilation."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from clozeline.model.heads import Head

_GRAPHS: Final = 64
"""Recompilation limit of a function that all layers or heads of a class share: for each type of layer, with and without
padding, in training and in evaluation, for the first shapes, for any, and for one row. torch's default is 8."""


def recompute_layers(model: nn.Module) -> None:
    """Store only the input of each layer for the backward pass, which runs the layer again (arXiv 1604.06174).

    Losses and gradients are the same bits, dropout included; a step costs about a third more arithmetic.
    """
    for layer in _layers(model):
        layer.forward = partial(_recompute, layer, layer.forward)


def compile_layers(model: nn.Module, backend: str = "inductor") -> None:
    """Compile each layer as one graph, before `recompute_layers`; its layers must have no graph breaks.

    After a second batch size or row length, a graph is compiled for any; further ones compile nothing.
    """
    for layer in _layers(model):
        layer.forward = _compile(layer.forward, backend)


def compile_heads(model: nn.Module, backend: str = "inductor") -> None:
    """Compile each head that reads only labeled positions as one graph, again for each number of labels.

    `label_capacity.pad_labels` keeps that number constant.
    """
    for head in model.modules():
        if isinstance(head, Head) and head.unit == "label":
            head.forward = _compile(head.forward, backend)  # type: ignore[method-assign]


def _compile(forward: Any, backend: str) -> Any:
    settings: Any = {"fullgraph": True, "backend": backend, "recompile_limit": _GRAPHS}  # untyped in torch's overloads
    return torch.compile(forward, **settings)


def _layers(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the members of every list named `layers`, each once."""
    lists = (getattr(module, "layers", None) for module in model.modules())
    members = [layer for layers in lists if isinstance(layers, nn.ModuleList) for layer in layers]
    yield from dict.fromkeys(members)


def _recompute(layer: nn.Module, forward: Any, *inputs: Any) -> Any:
    if layer.training and torch.is_grad_enabled():
        return checkpoint(forward, *inputs, use_reentrant=False)
    return forward(*inputs)
