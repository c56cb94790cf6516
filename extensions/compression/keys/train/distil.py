"""The key `distil`: what a distillation needs of the rest of a training, and reads of its sets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar, Final

from clozeline.columns import TEACHER
from clozeline.configuration.config import config_class
from clozeline.extensions.compression.distillation.distillation_options import DistilOptions
from clozeline.extensions.compression.registries import DISTILLATION_LOSSES
from clozeline.model.configuration.capabilities import (
    ALL_STATES,
    COMPARED_LAYERS,
    INITIAL_WEIGHTS,
    OWN_LAYERS,
    STATES_ON_DEVICE,
    TRAINED_BODY,
    TRAINED_PARAMETERS,
    Capability,
    Part,
)
from clozeline.pipeline.shards import ShardSet
from clozeline.registry import Component
from clozeline.train.configuration.keys import TrainingKey
from clozeline.train.registries import HookComponent

_TEACHER: Final = Capability("a teacher in memory", "set distil.teacher")


@config_class
class DistilConfig(DistilOptions, TrainingKey):
    """Distillation of a teacher, such as {teacher: RUN, losses: [cosine], start: {layers: [0, 2]}}.

    See arXiv 1503.02531.
    """

    settings: ClassVar = (
        Part("distil", needs={TRAINED_BODY, ALL_STATES, COMPARED_LAYERS}),
        Part(
            "distil.teacher=null",
            lambda distil: distil.teacher is None,
            prevents={_TEACHER},
        ),
        Part(
            "distil.start",
            lambda distil: distil.start is not None,
            owns={INITIAL_WEIGHTS},
        ),
        Part(
            "distil.progressive",
            lambda distil: distil.progressive is not None,
            needs={_TEACHER, OWN_LAYERS, STATES_ON_DEVICE},
            owns={"the layers that train", TRAINED_PARAMETERS},
        ),
    )
    choices: ClassVar = {"distil.losses": DISTILLATION_LOSSES}
    columns: ClassVar = dict.fromkeys(
        (field.name for field in TEACHER),
        "distil, with the loss scores and without a teacher in memory",
    )

    @property
    def chosen(self) -> Iterator[tuple[str, Component[Any]]]:
        yield from (("distil.losses", loss) for loss in self.active)

    @property
    def reads(self) -> Collection[str]:
        return self.columns.keys() if self.teacher is None and self.active else ()

    def hooks(self) -> Sequence[HookComponent]:
        from clozeline.extensions.compression.distillation.distillation_hooks import (
            Distillation,
            ProgressiveDistillation,
        )

        kind = Distillation if self.progressive is None else ProgressiveDistillation
        return (Component("distil", kind, self),)

    def check(self, run: Any) -> None:
        steps = run.schedule.options.steps or (run.steps if run.steps != "auto" else 1 << 31)
        layers = run.model.layers
        if self.progressive is not None and self.progressive * layers > steps:
            raise ValueError(
                f"distil.progressive: expected at most {steps // layers} steps for each of "
                f"{layers} layers in {steps} steps, got {self.progressive}"
            )

    def check_sets(self, run: Any, sets: Sequence[ShardSet]) -> None:
        from clozeline.extensions.compression.distillation.stored_scores import refuse_unfit_scores

        if self.teacher is None:
            refuse_unfit_scores(self.active, run.model, sets)
