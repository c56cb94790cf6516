"""Transfer one layer at a time (MobileBERT, arXiv 2004.02984, section 3.3.2)."""

from collections.abc import Collection, Mapping

from clozeline.errors import ConfigurationError
from clozeline.train.compression.distillation.losses import DistillationLoss
from clozeline.train.hooks import Step
from clozeline.train.hooks.unfreezing import DepthFreezing


class Progressive(DepthFreezing):
    """Stages of a distillation, as a function of the step alone.

    In stage s the student's layer s learns from the losses that compare it, and nothing else counts or is trained; the
    embeddings belong to stage 1. After the last layer everything is trained, by the losses of heads and by those that
    do not go layer by layer.

    Args:
        losses: of the student, by name.
        layers: of the student.
        steps: of each stage but the last.

    Raises:
        ConfigurationError: a layer is compared by no loss, or a matrix that several layers share would be trained.
    """

    def __init__(self, losses: Mapping[str, DistillationLoss], layers: int, steps: int) -> None:
        super().__init__(None)
        self.losses, self.depth, self.steps = losses, layers, steps
        self.maps = {name: dict(loss.layers) for name, loss in losses.items() if loss.by_layer}
        compared = set[int]().union(*self.maps.values())
        if missing := sorted({*range(1, layers + 1)} - compared):
            raise ConfigurationError(
                f"distil.progressive: expected states or attention in distil.losses that compare each of the {layers} "
                f"layers, got none for {', '.join(map(str, missing))}: add them to its layers"
            )
        if mapped := [name for name in self.maps if any(True for _ in losses[name].parameters())]:
            raise ConfigurationError(
                f"distil.progressive: {mapped[0]} maps states to the teacher's width by one matrix for all layers: "
                "expected a student of the teacher's width"
            )
        self.stage = layers + 1

    def begin(self, step: Step) -> None:
        """Start a step: choose what the losses compare, and what is trained."""
        self.enter(step.index)
        super().begin(step)

    def resume(self, step: int) -> None:
        """Choose what the losses compare, as an evaluation may come before the next step."""
        self.enter(max(step, 1))

    def enter(self, step: int) -> None:
        """Enter the stage of a step, counted from 1."""
        self.stage = min((step - 1) // self.steps, self.depth) + 1
        for name, layers in self.maps.items():
            self.losses[name].layers = {here: there for here, there in layers.items() if max(here, 1) == self.stage}

    def counts(self, name: str) -> bool:
        """Return whether a loss counts in this stage; heads and other losses do in the last."""
        return bool(self.losses[name].layers) if name in self.maps else self.stage > self.depth

    def trained_depths(self, step: int) -> Collection[int]:
        """Return the depths below the heads that are trained in this stage: the last layer is 1."""
        if self.stage > self.depth:
            return range(self.depth + 2)
        first = self.depth + 1 - self.stage
        return range(first, first + 1 + (self.stage == 1))

    def line(self) -> str:
        """Return what a start prints."""
        return f"           layer by layer: {self.steps} steps each, all from step {self.steps * self.depth + 1}"
