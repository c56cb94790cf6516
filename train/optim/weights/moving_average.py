"""Exponential moving average of the weights, which is evaluated and exported instead of them.

It is partitioned, saved and resumed like the fp32 masters. The decay of the t-th update is
min(decay, (1 + t) / (10 + t)), so that a short run forgets its initial weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from clozeline.configuration.config import config_class

if TYPE_CHECKING:
    from torch import Tensor

AVERAGE: Final = "average"
"""Name of the state that is evaluated and exported instead of the weights."""


@config_class
class AverageConfig:
    """An exponential moving average of the weights."""

    decay: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.999
    """decay of the average, > 0, < 1; in the t-th update at most (1 + t) / (10 + t)"""


class MovingAverage:
    """Averages by optimizer tensor, under the state name `AVERAGE`."""

    def __init__(self, config: AverageConfig) -> None:
        self.decay = config.decay
        self.of: dict[Tensor, dict[str, Tensor]] = {}

    def create(self, flat: Tensor) -> Tensor:
        """Return the new average of an optimizer tensor, zeros."""
        return self.of.setdefault(flat, {AVERAGE: flat.new_zeros(flat.shape)})[AVERAGE]

    def begin(self, flats: Iterable[Tensor]) -> None:
        """Start from the current weights, unless a checkpoint contained averages."""
        for flat in flats:
            if flat not in self.of:
                self.create(flat).copy_(flat.detach())

    def update(self, updates: int) -> None:
        """Update the averages; `updates` counts the updates of the run so far, without skipped steps."""
        share = 1.0 - min(self.decay, (1 + updates) / (10 + updates))
        for flat, states in self.of.items():
            states[AVERAGE].lerp_(flat.detach(), share)
