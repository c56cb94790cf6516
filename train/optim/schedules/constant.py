"""Linear warm-up, then a constant rate."""

from clozeline.train.optim.schedules import Schedule


class ConstantSchedule(Schedule):
    """A rate that stays at the peak after the warm-up.

    With `warmup` 2: steps 1..4 give 0.5, 1, 1, 1.
    """

    def after_warmup(self, step: int) -> float:
        return 1.0
