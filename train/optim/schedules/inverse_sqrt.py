"""Linear warm-up, then decay with the inverse square root (arXiv 1706.03762; T5, 1910.10683)."""

import math

from clozeline.train.optim.schedules import Schedule


class InverseSqrtSchedule(Schedule):
    """min(step / w, sqrt(w / step)) with w = max(1, `warmup`), also after the horizon.

    With `warmup` 4: steps 1, 2, 4, 16, 64 give 0.25, 0.5, 1, 0.5, 0.25.
    """

    endless = True

    def __call__(self, step: int) -> float:
        """Return the multiplier for a step, counted from 1; the horizon has no effect."""
        return self.warm_up(step) if step < self.warmup else self.after_warmup(step)

    def after_warmup(self, step: int) -> float:
        return math.sqrt(max(1, self.warmup) / step)
