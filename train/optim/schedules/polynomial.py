"""Linear warm-up, then polynomial decay (in LAMB's recipe for BERT a root, arXiv 1904.00962)."""

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.train.optim.schedules import Schedule, ScheduleOptions


class PolynomialSchedule(Schedule):
    """A rate of `final` + (1 - `final`) (1 - progress)^`power` from the warm-up to the horizon.

    With `steps` 4, `power` 2, `final` 0: steps 1..4 give 0.5625, 0.25, 0.0625, 0.
    """

    @config_class
    class Options(ScheduleOptions):
        """Options of the polynomial schedule."""

        power: float = Field(default=0.5, gt=0.0)
        """Exponent, > 0: 1 is a line, 0.5 falls late, 2 early."""
        final: float = Field(default=0.0, ge=0.0, le=1.0)
        """Multiplier at the horizon, 0..1."""

    options: Options

    def after_warmup(self, step: int) -> float:
        left: float = (1.0 - self.progress(step)) ** self.options.power
        return self.options.final + (1.0 - self.options.final) * left
