"""A short rise and a long fall, both linear: ULMFiT's schedule (arXiv 1801.06146, equation 3)."""

import math
from typing import Final

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.train.optim.schedules import Schedule, ScheduleOptions

_RISE: Final = 0.1
"""Share of the steps over which the rate rises in the paper."""


class SlantedTriangularSchedule(Schedule):
    """A rate that rises from 1 / `ratio` to 1 over `warmup` steps, and falls until the end.

    Without `warmup`, it rises over the share `rise` of the steps.

    With `steps` 1000, `rise` 0.1, `ratio` 32: steps 50, 100, 550, 1000 give 0.515625, 1, 0.515625,
    0.03125.
    """

    @config_class
    class Options(ScheduleOptions):
        """Options of the slanted triangle; the paper's are the defaults."""

        rise: float = Field(default=_RISE, gt=0.0, le=1.0)
        """Share of the steps over which the rate rises where `warmup` is 0, 0 < rise ≤ 1 (the
        paper's `cut_frac`)."""
        ratio: float = Field(default=32.0, ge=1.0)
        """Highest rate by the lowest, ≥ 1."""

        def __post_init__(self) -> None:
            if self.warmup_from:
                raise ValueError(f"warmup_from: set ratio instead: {1 / self.warmup_from:g}")
            if self.warmup and self.rise != _RISE:
                raise ValueError(
                    f"rise: has no effect with warmup {self.warmup}: remove one of the two"
                )

    options: Options

    def __call__(self, step: int) -> float:
        """Return the multiplier for a step; after the horizon it keeps its last value."""
        return self.after_warmup(min(step, max(self.steps, self.warmup)))

    def after_warmup(self, step: int) -> float:
        cut = self.warmup or max(1, math.floor(self.steps * self.options.rise))
        share = step / cut if step < cut else 1.0 - (step - cut) / max(1, self.steps - cut)
        return (1.0 + share * (self.options.ratio - 1.0)) / self.options.ratio
