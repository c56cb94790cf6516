"""LoRA (arXiv 2106.09685): low-rank updates of linear maps.

Also rank-stabilized scaling (arXiv 2312.03732), and a larger learning rate for B (LoRA+, arXiv
2402.12354).
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.adapters._adapter import (
    Adapter,
    AdapterOptions,
    Pattern,
    Patterns,
    linear_maps,
    matches,
)
from clozeline.model.configuration.key_types import Probability, Width
from clozeline.model.families import ModelFamily
from clozeline.model.parameters.initial_values import Draw, constant, uniform


class Lora(Adapter):
    """h = W x + scale B A x for each chosen linear map W; B is initially 0: no change at first.

    A map adds rank x (inputs + outputs) parameters, which can be merged into its weight.
    """

    options: Options

    @config_class
    class Options(AdapterOptions):
        """Configuration of LoRA."""

        rank: Width = 8
        """Rank of each update: rows of A, columns of B."""
        alpha: Annotated[float, Field(gt=0)] = 8.0
        """Factor of the updates, divided by the rank or its square root."""
        rank_stabilized: bool = False
        """Divide `alpha` by the square root of the rank instead of the rank."""
        dropout: Probability = 0.0
        """Dropout of the inputs of A."""
        targets: Annotated[Patterns, Field(min_length=1)] = ("query", "value")
        """Linear maps that are updated: regular expressions of complete path components."""
        rank_pattern: dict[Pattern, Width] = field(default_factory=dict)
        """Ranks other than `rank`, by pattern of the map's path; the first match counts."""
        alpha_pattern: dict[Pattern, Annotated[float, Field(gt=0)]] = field(default_factory=dict)
        """Values other than `alpha`, by pattern of the map's path; the first match counts."""
        rate_ratio: Annotated[float, Field(gt=0)] = 1.0
        """Learning rate of B divided by that of A, which has the optimizer's (LoRA+; 16 in the
        paper)."""

        def rank_of(self, path: str) -> int:
            """Return the rank of a linear map."""
            return next(
                (rank for pattern, rank in self.rank_pattern.items() if matches(pattern, path)),
                self.rank,
            )

        def scale_of(self, path: str) -> float:
            """Return the factor of B A for a linear map."""
            rank = self.rank_of(path)
            patterns = self.alpha_pattern
            alpha = next(
                (alpha for pattern, alpha in patterns.items() if matches(pattern, path)), self.alpha
            )
            return alpha / (rank**0.5 if self.rank_stabilized else rank)

    def __init__(self, options: Options, family: ModelFamily) -> None:
        super().__init__(options, family)
        maps = linear_maps(family, "targets", options.targets)
        # a pattern without effect is a mistake
        for key, patterns in (
            ("rank_pattern", options.rank_pattern),
            ("alpha_pattern", options.alpha_pattern),
        ):
            if unused := [
                pattern for pattern in patterns if not any(matches(pattern, path) for path in maps)
            ]:
                expected = "expected a pattern that matches some of the targets"
                raise ConfigurationError(
                    f"model.adapter.{key}: '{unused[0]}' matches no target: {expected}"
                )

        sizes = {
            path: (linear.in_features, linear.out_features, options.rank_of(path))
            for path, linear in maps.items()
        }
        self.register_parts(
            {
                path: LowRank(*size, options.scale_of(path), options.dropout)
                for path, size in sizes.items()
            }
        )

    def change(self, part: Any, x: Tensor, output: Tensor) -> Tensor:
        return output + part(x)

    def learning_rate_factors(self) -> dict[nn.Parameter, float]:
        ratio = self.options.rate_ratio
        return (
            {} if ratio == 1.0 else {part.get_parameter("b"): ratio for part in self.parts.values()}
        )

    def merge(self, family: ModelFamily) -> dict[str, Tensor]:
        """Return W + scale B A of each chosen map, computed in fp32."""
        weights = {}
        for path, update in self.parts.items():
            assert isinstance(update, LowRank)
            weight = family.get_parameter(f"{path}.weight")
            weights[f"{path}.weight"] = (weight.float() + update.product()).to(weight.dtype)
        return weights


class LowRank(nn.Module):
    """scale B A x, with A [rank, inputs] random and B [outputs, rank] initially zero."""

    def __init__(self, inputs: int, outputs: int, rank: int, scale: float, dropout: float) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.empty(rank, inputs))
        self.b = nn.Parameter(torch.empty(outputs, rank))
        self.dropout = nn.Dropout(dropout)
        self.scale = scale
        self.inputs = inputs

    def initial_weights(self, usual: Draw) -> dict[str, Draw]:
        # A as torch initializes linear maps
        return {"a": uniform(self.inputs**-0.5), "b": constant(0.0)}

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., inputs] to [..., outputs]."""
        return F.linear(F.linear(self.dropout(x), self.a), self.b) * self.scale

    @torch.no_grad()
    def factors(self) -> tuple[Tensor, Tensor]:
        """Return A [rank, inputs] and B [outputs, rank] of the update scale B A, in fp32."""
        return self.a.detach().float(), self.b.detach().float()

    @torch.no_grad()
    def product(self) -> Tensor:
        """Return the update that a merge adds to the weight: [outputs, inputs], fp32."""
        a, b = self.factors()
        return self.scale * (b @ a)
