"""Train a student layer by layer: the stages of `distil.progressive` freeze what they do not train."""

from collections.abc import Collection

from clozeline.model.compression.distillation.student import Stages
from clozeline.train.hooks.unfreezing import DepthFreezing


class Progressive(DepthFreezing):
    """Enters the stage of each step, and trains its depths alone.

    Args:
        stages: of the student.
    """

    def __init__(self, stages: Stages) -> None:
        super().__init__(None)
        self._stages = stages

    def resume(self, step: int) -> None:
        """Choose what the losses compare, as an evaluation may come before the next step."""
        self._stages.enter(max(step, 1))

    def trained_depths(self, step: int) -> Collection[int]:
        self._stages.enter(step)
        return self._stages.trained_depths
