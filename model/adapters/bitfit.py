"""Changes of the biases alone: BitFit (arXiv 2106.10199)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from clozeline.errors import ConfigurationError
from clozeline.model.adapters._adapter import Adapter, AdapterOptions, Undo
from clozeline.model.configuration.key_types import STRICT
from clozeline.model.families import Family
from clozeline.model.layers.disentangled_layers import Convolution
from clozeline.model.layers.norm import NoNorm
from clozeline.model.parameters.initial_values import Draw, constant
from clozeline.model.parameters.sharding import full_shape

_ADDED_LAST: Final = (nn.Linear, nn.LayerNorm, NoNorm, Convolution)
"""Modules that add their bias to their output, after everything else."""


class Bitfit(Adapter):
    """A change of every bias of the body; it is 0 at first, and the biases of the model stay what they are.

    It has as many parameters as the body has biases, and can be merged into them. A bias and its change have no weight
    decay, so that this is training the biases themselves.
    """

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options(AdapterOptions):
        """BitFit has no keys of its own."""

    def __init__(self, options: Options, family: Family) -> None:
        super().__init__(options, family)
        found = {path: module for path, module in family.named_modules() if getattr(module, "bias", None) is not None}
        found = {path: module for path, module in found.items() if isinstance(module.bias, nn.Parameter)}
        if not found:
            raise ConfigurationError(
                "model.adapter: bitfit changes biases, and the body has none: choose another adapter, such as lora"
            )
        if other := next((path for path, module in found.items() if not isinstance(module, _ADDED_LAST)), None):
            raise ConfigurationError(
                f"model.adapter: bitfit: the bias of {other}, a {type(found[other]).__name__}, enters inside its "
                "computation: expected linear maps and norms; choose another adapter"
            )
        self.hold({path: Shift(full_shape(module.get_parameter("bias")).numel()) for path, module in found.items()})

    def changes(self, family: Family) -> Iterator[Undo]:
        """Add each change to the outputs of its module."""
        for path, shift in self.parts.items():

            def add(_: nn.Module, inputs: tuple[Tensor], output: Tensor, shift: Any = shift) -> Tensor:
                shifted: Tensor = shift(output)
                return shifted

            yield family.get_submodule(path).register_forward_hook(add).remove

    @torch.no_grad()
    def merge(self, family: Family) -> dict[str, Tensor]:
        """Return the changed biases."""
        found = {}
        for path, shift in self.parts.items():
            bias = family.get_parameter(f"{path}.bias")
            found[f"{path}.bias"] = (bias.float() + shift.get_parameter("bias").float()).to(bias.dtype)
        return found


class Shift(nn.Module):
    """x + bias over the last axis."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.empty(width))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        """Return the law: zeros."""
        return {"bias": constant(0.0)}

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., width] to the same shape."""
        return x + self.bias
