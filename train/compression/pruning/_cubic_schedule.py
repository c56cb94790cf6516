"""The cubic schedule of gradual pruning (arXiv 1710.01878, 1902.09574)."""

from typing import Annotated

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError


@config_class
class CubicSteps:
    """Steps of the schedule."""

    start: Annotated[int, Field(ge=0)] = 0
    """step t0 at which the schedule starts"""
    end: Annotated[int, Field(ge=1)] | None = None
    """step at which the final value is reached; at most schedule.steps; null: two thirds of schedule.steps. With end =
    start, the final value is reached at once"""
    every: Annotated[int, Field(ge=1)] = 10
    """steps between two updates of the masks"""

    def __post_init__(self) -> None:
        if self.end is not None and self.end < self.start:
            raise ValueError(f"end: expected start {self.start} or a later step, got {self.end}")

    def last_step(self, horizon: int) -> int:
        """Return the step of the final value; raise a ConfigurationError if it is after the last step, `horizon`."""
        last = max(self.start, 2 * horizon // 3, 1) if self.end is None else self.end
        if last > horizon:
            key = "end" if self.end is not None else "start"
            raise ConfigurationError(
                f"prune.{key}: expected at most {horizon}, the last step of the schedule (schedule.steps, by default "
                f"steps), got {last}: the model would never be pruned completely"
            )
        return last

    def is_due(self, step: int, last: int) -> bool:
        """Return whether the masks change after a step of the schedule."""
        return self.start <= step <= last and ((step - self.start) % self.every == 0 or step == last)

    def progress(self, step: int, last: int) -> float:
        """Return the share of the way from the initial to the final value, 1 - (1 - (t - t0) / (nΔt))³.

        Example:
            >>> [round(0.9 * CubicSteps(end=100).progress(step, 100), 4) for step in (0, 25, 50, 75, 100)]
            [0.0, 0.5203, 0.7875, 0.8859, 0.9]
        """
        if step >= last:
            return 1.0
        return 1.0 - (1.0 - max(step - self.start, 0) / (last - self.start)) ** 3


@config_class
class CubicOptions(CubicSteps):
    """Steps of the schedule, and the pruned matrices."""

    parameters: tuple[str, ...] = ()
    """regular expressions for full names of the matrices to prune; default: the linear maps of all layers"""
