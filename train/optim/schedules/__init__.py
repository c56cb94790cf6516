"""Learning-rate schedules, one per file; see `_schedule.py` for the interface."""

from clozeline.train.optim.schedules._schedule import Schedule, ScheduleOptions

__all__ = ["Schedule", "ScheduleOptions"]
