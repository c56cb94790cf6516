"""Optimizers, one per file: each builds a torch optimizer from named parameter groups.

ZeRO stages 1 to 3 hand the optimizer flat pieces of many parameters. An optimizer whose update needs more than
single elements learns by `bind` which elements of which parameters these are. The engine writes the learning rate of a
step into the groups.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, Literal

import torch
from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.train.optim.weights.flat_buffers import Layout

AVERAGE: Final = "average"
"""Name of a state that is evaluated and exported instead of the weights."""


@config_class
class OptimizerOptions:
    """Options that every optimizer has."""

    learning_rate: Annotated[float, Field(gt=0.0)] | Literal["auto"] = Field(
        default=1e-3,
        description="peak rate, > 0; the schedule multiplies it. auto: for a fine-tuning by adamw, from the model's "
        "width: 3e-5 at 768, more for narrower ones",
    )
    weight_decay: float = Field(
        default=0.01, ge=0.0, description="decoupled decay of matrices, ≥ 0; biases and norms have none"
    )
    layer_decay: float | None = Field(
        default=None,
        gt=0.0,
        le=1.0,
        description="rate of a layer relative to the layer above, > 0, ≤ 1; heads have the full rate, embeddings "
        "the lowest; null: one rate",
    )

    @property
    def peak_rate(self) -> float:
        """`learning_rate` as a number, which a start puts in the place of `auto`."""
        assert self.learning_rate != "auto", "check_start has resolved it"
        return self.learning_rate


class OptimizerBuilder(ABC):
    """Builds a torch optimizer."""

    statistics: ClassVar[Literal["element", "matrix"]]
    """Scope of the update of an element: its own history, sums over its parameter, or the matrix."""
    bit_exact: ClassVar[bool] = True
    """An element gets the same bits at any index of any tensor, so every ZeRO stage and world size agrees exactly.
    False: its kernel rounds by the element's index, so they agree to an ulp or so."""
    has_rates_of_adam: ClassVar[bool] = False
    """A learning rate means what it means for Adam, so that `auto` chooses it."""
    states: ClassVar[int]
    """fp32 numbers of state per element, for the memory estimate."""
    matrices_apart: ClassVar[bool] = False
    """Matrices of layers form separate groups, named `matrix`."""
    averages: ClassVar[bool] = False
    """The state holds averages of the weights, named `AVERAGE`."""
    follows_heldout: ClassVar[bool] = False
    """Losses on the first held-out set change the update; checkpoints then store them."""

    def __init__(self, options: OptimizerOptions) -> None:
        self.options = options

    @abstractmethod
    def build(self, groups: Sequence[dict[str, Any]]) -> torch.optim.Optimizer:
        """Return the optimizer over groups with `params`, `name` and `weight_decay`."""

    def bind(self, optimizer: torch.optim.Optimizer, layout: Layout) -> None:  # noqa: B027
        """Tell the optimizer which elements of which parameters its tensors hold.

        Called once before the first step, at every stage. Without an override, an optimizer whose `statistics` are not
        elementwise is refused from stage 1 on.
        """

    def follow(self, optimizer: torch.optim.Optimizer, losses: Sequence[float]) -> bool:
        """Pass the held-out losses so far, oldest first; return whether the update changes from now on.

        Also called at every start: the same losses must give the same optimizer.
        """
        return False
