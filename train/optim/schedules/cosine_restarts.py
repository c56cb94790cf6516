"""Linear warm-up, then half cosines that restart at the peak: SGDR (arXiv 1608.03983)."""

import math

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.train.optim.schedules import Schedule, ScheduleOptions


class CosineRestartsSchedule(Schedule):
    """A rate that falls from 1 toward `final` along half a cosine in each cycle.

    Cycles follow the warm-up. The first has `period` steps, each later cycle `growth` times as many
    as its predecessor. End a run with a cycle, where the rate is lowest.

    With `period` 2, `growth` 2, `final` 0: steps 1..6 give 1, 0.5, 1, 0.854, 0.5, 0.146.
    """

    rises = True

    @config_class
    class Options(ScheduleOptions):
        """Length of the cycles, and their lowest rate."""

        period: int = Field(ge=1)
        """Steps of the first cycle, ≥ 1 (T_0 of the paper)."""
        growth: int = Field(default=2, ge=1)
        """Steps of a cycle by those of the one before, ≥ 1 (T_mult of the paper); 1: all are
        equally long."""
        final: float = Field(default=0.0, ge=0.0, le=1.0)
        """Multiplier that each cycle falls to, 0..1."""

    options: Options

    def after_warmup(self, step: int) -> float:
        final = self.options.final
        length = self.options.period
        # steps of the present cycle that have passed
        passed = max(0, step - self.warmup - 1)
        while passed >= length:
            passed -= length
            length *= self.options.growth
        return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * passed / length))
