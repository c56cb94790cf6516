"""Linear warm-up, then a constant rate."""

from clozeline.configuration.config import config_class
from clozeline.train.optim.schedules import Schedule, ScheduleOptions


class Constant(Schedule):
    """A rate that stays at the peak after the warm-up.

    With `warmup` 2: steps 1..4 give 0.5, 1, 1, 1.
    """

    @config_class
    class Options(ScheduleOptions):
        """Options of the constant schedule."""

    options: Options

    def after_warmup(self, step: int) -> float:
        """Return the peak, 1."""
        return 1.0
