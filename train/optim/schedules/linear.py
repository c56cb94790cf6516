"""Linear warm-up, then linear decay: the schedule of BERT (arXiv 1810.04805)."""

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.train.optim.schedules import Schedule, ScheduleOptions


class LinearSchedule(Schedule):
    """A rate that falls on a straight line, after the warm-up, to `final` of its peak.

    With `warmup` 2, `steps` 6, `final` 0: steps 1..6 give 0.5, 1, 0.75, 0.5, 0.25, 0.
    """

    @config_class
    class Options(ScheduleOptions):
        """Options of the linear schedule."""

        final: float = Field(default=0.0, ge=0.0, le=1.0)
        """Multiplier at the horizon, 0..1."""

    options: Options

    def after_warmup(self, step: int) -> float:
        return 1.0 - (1.0 - self.options.final) * self.progress(step)
