"""(IA)³ (arXiv 2205.05638): learned factors of activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.adapters._adapter import Adapter, AdapterOptions, Undo
from clozeline.model.adapters._targets import Patterns, linear_maps
from clozeline.model.families import Family
from clozeline.model.parameters.initial_values import Draw, constant


class Ia3(Adapter):
    """Learned factors of keys, values and the inner features of feed-forward blocks.

    The factors are initially 1. A layer with one attention has dim + dim + ffn_dim of them, if it has as many key and
    value heads as query heads. They can be merged into the weights.
    """

    options: Options

    @config_class
    class Options(AdapterOptions):
        """Configuration of (IA)³."""

        outputs: Patterns = ("key", "value")
        """Linear maps whose outputs are scaled: regular expressions of complete path components."""
        inputs: Patterns = ("down",)
        """Linear maps whose inputs are scaled."""

        def __post_init__(self) -> None:
            if not self.outputs and not self.inputs:
                raise ValueError("outputs: expected a linear map in outputs or inputs, got none")

    def __init__(self, options: Options, family: Family) -> None:
        super().__init__(options, family)
        outputs, inputs = (linear_maps(family, key, getattr(options, key)) for key in ("outputs", "inputs"))
        if both := outputs.keys() & inputs.keys():
            why = "a linear map has one factor, choose one"
            raise ConfigurationError(f"model.adapter.inputs: {min(both)} is one of the outputs too: {why}")
        self.before = frozenset(inputs)
        factors = {path: Factor(linear.out_features) for path, linear in outputs.items()}
        self.register_parts(factors | {path: Factor(linear.in_features) for path, linear in inputs.items()})

    def apply_changes(self, family: Family) -> Iterator[Undo]:
        for path, factor in self.parts.items():

            def scale(_: nn.Module, inputs: tuple[Tensor], output: Tensor, factor: Any = factor) -> Tensor:
                return factor(output)

            def scale_before(_: nn.Module, inputs: tuple[Tensor], factor: Any = factor) -> Tensor:
                return factor(inputs[0])

            linear = family.get_submodule(path)
            if path in self.before:
                yield linear.register_forward_pre_hook(scale_before).remove
            else:
                yield linear.register_forward_hook(scale).remove

    @torch.no_grad()
    def merge(self, family: Family) -> dict[str, Tensor]:
        """Return the chosen weights, and the biases of scaled outputs, times the factors, computed in fp32."""
        scaled_parameters = {}
        for path, part in self.parts.items():
            factor = part.get_parameter("factor").float()
            for name, parameter in family.get_submodule(path).named_parameters():
                if name == "bias" and path in self.before:
                    continue  # only the inputs are scaled
                along = factor[:, None] if name == "weight" and path not in self.before else factor
                scaled_parameters[f"{path}.{name}"] = (parameter.float() * along).to(parameter.dtype)
        return scaled_parameters


class Factor(nn.Module):
    """x * factor over the last axis."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.empty(width))

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        return {"factor": constant(1.0)}

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor
