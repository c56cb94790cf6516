"""The interface of learning-rate schedules: from a step to a multiplier of the peak rate.

Schedules have no state: resuming and skipped steps change nothing. Steps count from 1, where the
rate is already above 0.
"""

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar

from pydantic import Field

from clozeline.configuration.config import Natural, config_class


@config_class
class ScheduleOptions:
    """Options that every schedule has."""

    warmup: Natural | Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0,
        description="steps over which the rate rises on a line to its peak, or below 1 their "
        "share of all steps: 0.1; 0 starts at the peak",
    )
    warmup_from: float = Field(
        default=0.0, ge=0.0, lt=1.0, description="multiplier of the peak before the warm-up, 0..1"
    )
    steps: int | None = Field(
        default=None,
        ge=1,
        description="step at which the schedule ends; null: the `steps` of the first start, frozen "
        "from then on",
    )

    @property
    def branch_step(self) -> int | None:
        """Step at which it branches off the schedule of another run; None: it does not."""
        return None


class Schedule(ABC):
    """A multiplier of the peak learning rate for each step."""

    Options: ClassVar[type[ScheduleOptions]] = ScheduleOptions
    rises: ClassVar[bool] = False
    """The rate may rise again after the warm-up."""
    endless: ClassVar[bool] = False
    """The rate keeps changing after the horizon, which has no effect."""

    def __init__(self, options: ScheduleOptions, steps: int) -> None:
        self.options = options
        self.steps = steps
        self.warmup = (
            options.warmup if isinstance(options.warmup, int) else round(options.warmup * steps)
        )

    def __call__(self, step: int) -> float:
        """Return the multiplier in 0..1 for a step, counted from 1.

        After the horizon it keeps its last value.
        """
        if step < self.warmup:
            return self.warm_up(step)
        return self.after_warmup(min(step, self.steps))

    def warm_up(self, step: int) -> float:
        """Return the multiplier for a step of the warm-up."""
        begin = self.options.warmup_from
        return begin + (1.0 - begin) * step / self.warmup

    @abstractmethod
    def after_warmup(self, step: int) -> float:
        """Return the multiplier for a step in warmup..steps."""

    def progress(self, step: int) -> float:
        """Return the fraction of the steps between warm-up and horizon that have passed, 0..1."""
        return min(1.0, max(0, step - self.warmup) / max(1, self.steps - self.warmup))
