"""An exponential moving average of the weights, which is evaluated and exported in their place.

It is beside the fp32 masters, cut as ZeRO cuts them, and saved and resumed like them. The decay of the t-th update is
min(decay, (1 + t) / (10 + t)), so that the average of a short run does not keep the initial weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from clozeline.configuration.config import STRICT
from clozeline.train.optim.optimizers import AVERAGE


@dataclass(frozen=True, kw_only=True, config=STRICT)
class AverageConfig:
    """An exponential moving average of the weights."""

    decay: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.999
    """share of the average that an update keeps, > 0, < 1; in the t-th update at most (1 + t) / (10 + t)"""


class MovingAverage:
    """Averages by tensor of the optimizer, under the name of those that an optimizer keeps itself."""

    def __init__(self, config: AverageConfig) -> None:
        self.decay = config.decay
        self.of: dict[Tensor, dict[str, Tensor]] = {}

    def create(self, flat: Tensor) -> Tensor:
        """Return zeros for a tensor of the optimizer, which are now its average."""
        return self.of.setdefault(flat, {AVERAGE: torch.zeros_like(flat, requires_grad=False)})[AVERAGE]

    @torch.no_grad()
    def begin(self, flats: Iterable[Tensor]) -> None:
        """Begin with the weights as they are, except where a checkpoint has brought averages."""
        for flat in flats:
            if flat not in self.of:
                self.create(flat).copy_(flat)

    @torch.no_grad()
    def update(self, updates: int) -> None:
        """Take the weights after an update into the averages.

        Args:
            updates: updates of the run so far, this one included; skipped steps are none.
        """
        share = 1.0 - min(self.decay, (1 + updates) / (10 + updates))
        for flat, kept in self.of.items():
            kept[AVERAGE].lerp_(flat, share)
