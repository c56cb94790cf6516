"""Train a student layer by layer, by the stages of `distil.progressive`."""

from collections.abc import Collection

from clozeline.model.compression.distillation.student import Stages
from clozeline.train.hooks.unfreezing import DepthFreezing


class Progressive(DepthFreezing):
    """Enters the stage of each step, and trains only its layers.

    Args:
        stages: the stages of the student.
    """

    def __init__(self, stages: Stages) -> None:
        super().__init__(None)
        self._stages = stages

    def resume(self, step: int) -> None:
        """Enter the stage of the step: an evaluation may come before the next step."""
        self._stages.enter(max(step, 1))

    def trained_depths(self, step: int) -> Collection[int]:
        self._stages.enter(step)
        return self._stages.trained_depths
