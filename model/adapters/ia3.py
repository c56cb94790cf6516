"""Learnt factors of activations: (IA)³ (arXiv 2205.05638)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from clozeline.errors import ConfigurationError
from clozeline.model.adapters._adapter import Adapter, AdapterOptions, Undo
from clozeline.model.adapters._targets import Patterns, linear_maps
from clozeline.model.configuration.key_types import STRICT
from clozeline.model.families import Family
from clozeline.model.parameters.initial_values import Draw, constant


class Ia3(Adapter):
    """Features times learnt factors: those of keys and values, and those between both ends of feed-forward blocks.

    The factors are 1 at first. A layer with one attention has dim + dim + ffn_dim of them, with as many key and value
    heads as query heads. They can be merged into the weights.
    """

    options: Options

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options(AdapterOptions):
        """Keys of (IA)³."""

        outputs: Patterns = ("key", "value")
        """Linear maps whose outputs are scaled: regular expressions, each of whole parts at the end of a path."""
        inputs: Patterns = ("down",)
        """Linear maps whose inputs are scaled, likewise."""

        def __post_init__(self) -> None:
            if not self.outputs and not self.inputs:
                raise ValueError("outputs: expected a linear map in outputs or inputs, got none")

    def __init__(self, options: Options, family: Family) -> None:
        super().__init__(options, family)
        outputs, inputs = (linear_maps(family, key, getattr(options, key)) for key in ("outputs", "inputs"))
        if both := outputs.keys() & inputs.keys():
            raise ConfigurationError(
                f"model.adapter.inputs: {min(both)} is one of the outputs too: a linear map has one factor, choose one"
            )
        widths = {path: linear.out_features for path, linear in outputs.items()}
        self.before = frozenset(inputs)
        self.hold({path: Factor(width) for path, width in (widths | _inputs(inputs)).items()})

    def changes(self, family: Family) -> Iterator[Undo]:
        """Scale the outputs, or the inputs, of each chosen linear map."""
        for path, factor in self.parts.items():

            def scale(_: nn.Module, inputs: tuple[Tensor], output: Tensor, factor: Any = factor) -> Tensor:
                scaled: Tensor = factor(output)
                return scaled

            def scale_before(_: nn.Module, inputs: tuple[Tensor], factor: Any = factor) -> Tensor:
                scaled: Tensor = factor(inputs[0])
                return scaled

            linear = family.get_submodule(path)
            if path in self.before:
                yield linear.register_forward_pre_hook(scale_before).remove
            else:
                yield linear.register_forward_hook(scale).remove

    @torch.no_grad()
    def merge(self, family: Family) -> dict[str, Tensor]:
        """Return the weights of the chosen maps, and the biases of scaled outputs, times the factors, from fp32."""
        found = {}
        for path, part in self.parts.items():
            factor = part.get_parameter("factor").float()
            for name, parameter in family.get_submodule(path).named_parameters():
                if name == "weight":
                    scaled = parameter.float() * (factor if path in self.before else factor[:, None])
                elif path in self.before:
                    continue
                else:
                    scaled = parameter.float() * factor
                found[f"{path}.{name}"] = scaled.to(parameter.dtype)
        return found


class Factor(nn.Module):
    """x * factor over the last axis."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.empty(width))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        """Return the law: ones."""
        return {"factor": constant(1.0)}

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., width] to the same shape."""
        return x * self.factor


def _inputs(maps: dict[str, nn.Linear]) -> dict[str, int]:
    return {path: linear.in_features for path, linear in maps.items()}
