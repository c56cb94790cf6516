"""Linear warm-up, a stable rate, a short decay (WSD, arXiv 2404.06395, 2405.18392)."""

import math
from typing import Literal

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.train.optim.schedules import Schedule, ScheduleOptions


class WsdSchedule(Schedule):
    """A rate that stays at the peak, then falls by `fall` to `final` over the last `decay`.

    With `steps` 10, `decay` 0.4, `final` 0: steps 1..6 give 1, steps 7..10 give 1 - sqrt(n / 4):
    0.5, 0.293, 0.134, 0. With `decay` 1 the rate falls right after the warm-up: the schedule "1 -
    sqrt".
    """

    @config_class
    class Options(ScheduleOptions):
        """Options of warm-up, stable rate and decay."""

        decay: float = Field(default=0.2, gt=0.0, le=1.0)
        """Share of the steps over which the rate falls, 0 < decay ≤ 1."""
        fall: Literal["sqrt", "line", "cosine"] = "sqrt"
        """How it falls: as 1 - sqrt, fast at first; on a line, as most trainers; along half a
        cosine."""
        decay_from: int | None = Field(default=None, ge=1)
        """Step after which the rate falls, instead of the share `decay`, ≥ 1. Where `output` holds
        a run without it, the start continues that run's checkpoint of this step in a folder of its
        own, OUTPUT-decay-STEP."""
        final: float = Field(default=0.0, ge=0.0, le=1.0)
        """Multiplier at the horizon, 0..1."""

        @property
        def branch_step(self) -> int | None:
            return self.decay_from

    options: Options

    def after_warmup(self, step: int) -> float:
        begin = self.options.decay_from
        begin = (
            self.steps - math.floor(self.steps * self.options.decay)
            if begin is None
            else min(begin, self.steps)
        )
        first = max(self.warmup, begin)
        passed = max(0, step - first) / max(1, self.steps - first)
        fall = self.options.fall
        if fall == "cosine":
            passed = (1.0 - math.cos(math.pi * passed)) / 2.0
        return 1.0 - (1.0 - self.options.final) * (math.sqrt(passed) if fall == "sqrt" else passed)
