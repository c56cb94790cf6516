"""Linear warm-up, then half a cosine: the schedule of GPT-3 (arXiv 1608.03983, 2005.14165)."""

import math

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.train.optim.schedules import Schedule, ScheduleOptions


class CosineSchedule(Schedule):
    """A rate that falls along half a cosine, after the warm-up, to `final` of its peak.

    With `warmup` 2, `steps` 6, `final` 0: steps 2, 4, 6 give 1, 0.5, 0. With `final` 0.1 and
    `cooldown` 0.5, steps 3 to 6 give 0.1, 0.067, 0.033, 0 of a line.
    """

    @config_class
    class Options(ScheduleOptions):
        """Options of the cosine schedule."""

        final: float = Field(default=0.1, ge=0.0, le=1.0)
        """Multiplier at the horizon, 0..1."""
        cooldown: float = Field(default=0.0, ge=0.0, lt=1.0)
        """Share of the steps, at the end, over which the rate falls on a line from `final` to 0
        instead (LTG-BERT, arXiv 2303.09859)."""

    options: Options

    def after_warmup(self, step: int) -> float:
        final = self.options.final
        length = math.floor(self.steps * self.options.cooldown)
        if length and self.steps - step <= length:
            return final * (self.steps - step) / length
        return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * self.progress(step)))
