"""Optimizers, one per file: each builds a torch optimizer from named parameter groups.

ZeRO stages 1 to 3 hand the optimizer flat pieces of many parameters. One whose update of an element needs more than
that element is told, by `bind`, which elements of which parameters these are. The learning rate of a step is written
into the groups by the engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.configuration.training_synonyms import SYNONYMS
from clozeline.train.optim.weights.flat_buffers import Layout

AVERAGE: Final = "average"
"""State of an element that is evaluated and exported in the place of its weight, where there is one."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class OptimizerOptions:
    """Options that every optimizer has."""

    SYNONYMS: ClassVar = SYNONYMS

    learning_rate: float = Field(default=1e-3, gt=0.0, description="peak rate, > 0; the schedule multiplies it")
    weight_decay: float = Field(
        default=0.01, ge=0.0, description="decoupled decay of matrices, ≥ 0; biases and norms have none"
    )
    layer_decay: float | None = Field(
        default=None,
        gt=0.0,
        le=1.0,
        description="rate of a layer by that of the layer above it, > 0, ≤ 1; heads have the full rate, embeddings the "
        "lowest; null: one rate",
    )


class OptimizerBuilder(ABC):
    """Builder of a torch optimizer."""

    statistics: ClassVar[Literal["element", "parameter", "matrix"]]
    """The least that the update of an element depends on: its own history, sums over its parameter, or the matrix."""
    states: ClassVar[int]
    """Numbers of its state that belong to each element, in fp32: what the estimate of memory needs."""
    matrices_apart: ClassVar[bool] = False
    """True if weights of layers that are matrices form groups of their own, named `matrix`."""
    averages: ClassVar[bool] = False
    """True if its state holds averages of the weights, under the name `AVERAGE`."""
    follows_heldout: ClassVar[bool] = False
    """True if the losses on the first held-out set change its update: a checkpoint lists them then."""

    def __init__(self, options: OptimizerOptions) -> None:
        self.options = options

    @abstractmethod
    def build(self, groups: Sequence[dict[str, Any]]) -> torch.optim.Optimizer:
        """Return the optimizer over groups with `params`, `name` and `weight_decay`."""

    def bind(self, optimizer: torch.optim.Optimizer, layout: Layout) -> None:  # noqa: B027
        """Tell an optimizer that this builder made which elements of which parameters its tensors hold.

        It is called once, before the first step, at every stage. Without a method of its own, an optimizer whose
        `statistics` are not those of elements is refused from stage 1 on.
        """

    def follow(self, optimizer: torch.optim.Optimizer, losses: Sequence[float]) -> bool:
        """Tell an optimizer that this builder made the held-out losses of the run so far, the newest one last.

        It is called at the begin of a start, too; the same losses must give the same optimizer then.

        Returns:
            Whether it does another update than before from now on.
        """
        return False
