"""Learning-rate schedules, one per file: pure functions from the step to a multiplier of the peak rate.

No schedule has state: a resumed run computes the same rates from the step alone, and a skipped step cannot make it
drift. Steps count from 1; the rate of step 1 is already above 0.
"""

from clozeline.train.optim.schedules._schedule import Schedule, ScheduleOptions

__all__ = ["Schedule", "ScheduleOptions"]
