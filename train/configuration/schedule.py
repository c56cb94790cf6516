"""Check that a learning-rate schedule fits the steps of a run."""

from clozeline.errors import ConfigurationError
from clozeline.train.optim.schedules import ScheduleOptions


def check_schedule(options: ScheduleOptions, end: int) -> None:
    """Refuse a decay or a warm-up that lies beyond the `end` of the schedule, in steps.

    Raises:
        ConfigurationError: the schedule does not fit.
    """
    decay_from = getattr(options, "decay_from", None)
    if decay_from is not None and decay_from >= end:
        raise ConfigurationError(
            f"schedule.decay_from: expected a step before the end of the schedule at {end}, got {decay_from}: raise "
            "steps (and schedule.steps, where it is given)"
        )
    if options.warmup > end:
        raise ConfigurationError(
            f"schedule.warmup: expected at most {end}, the steps of the schedule (schedule.steps, by default "
            f"steps), got {options.warmup}: the learning rate would never reach its peak; set schedule.warmup="
            f"{end // 10} for a tenth, raise steps, or set schedule.steps to {options.warmup} or more where this run "
            "is the first part of a longer one"
        )
