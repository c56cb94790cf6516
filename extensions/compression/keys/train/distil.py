"""The teacher of a distillation, its losses, and the layers that a student starts from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from clozeline.columns import TEACHER
from clozeline.configuration.config import HOME_EXPANDED, MayChange, Natural, Positive, config_class
from clozeline.extensions.compression.registries import DISTILLATION_LOSSES, LossComponent
from clozeline.hub import MODEL_FETCHED
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
class StudentStart:
    """Weights that a student starts from."""

    layers: tuple[Natural, ...]
    """layer of the teacher that each layer of the student copies, both from 0: [0, 2, 4, 6, 8, 10].
    Embeddings and heads are copied, too"""
    source: Annotated[Path, HOME_EXPANDED, MODEL_FETCHED] | None = None
    """run or model folder to copy from, also as `hf://org/name`; null: distil.teacher"""


@config_class
class DistilConfig(TrainingKey):
    """Distillation of a teacher, such as {teacher: RUN, losses: [cosine], start: {layers: [0, 2]}}.

    See arXiv 1503.02531.
    """

    teacher: MayChange[Annotated[Path, HOME_EXPANDED, MODEL_FETCHED] | None] = None
    """run or model folder, or `hf://org/name`, that is compared with the model, held in memory on
    every rank; null: the scores that are stored with the data, which only the loss scores reads"""
    further: MayChange[tuple[Annotated[Path, HOME_EXPANDED, MODEL_FETCHED], ...]] = ()
    """further teachers: the loss scores, alone, compares the mean of all logits (Baby Llama, arXiv
    2308.02019)"""
    losses: list[LossComponent] = Field(default_factory=DISTILLATION_LOSSES.defaults("scores"))
    """losses in addition to the heads': [{name: scores, temperature: 2.0, weight: 5.0}, cosine]"""
    start: MayChange[StudentStart | None] = None
    """initial weights from layers of the teacher, {layers: [0, 2, 4]}; null: random or
    model.init_from"""

    progressive: Positive | None = None
    """steps for each layer of the student, from the first on: they train this layer alone, by
    states and attention (arXiv 2004.02984). Afterwards everything is trained, by the other losses.
    null: all of it from the start"""

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

    def __post_init__(self) -> None:
        names = [loss.name for loss in self.losses]
        if len(set(names)) < len(names) or not names:
            raise ValueError(
                f"losses: expected one or more, each once, got {', '.join(names) or 'none'}"
            )

        if self.further and (self.teacher is None or names != ["scores"]):
            raise ValueError("further: needs a teacher, and the loss scores alone")

    @property
    def active(self) -> tuple[LossComponent, ...]:
        """All losses if a teacher is in memory, else the losses that read stored scores."""
        return tuple(
            loss for loss in self.losses if self.teacher is not None or not loss.type.needs_teacher
        )

    @property
    def start_from(self) -> Path | None:
        """The run or folder from which layers are copied; None if no layers are copied."""
        return None if self.start is None else self.start.source or self.teacher

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
        steps = run.schedule.options.steps or (run.steps if isinstance(run.steps, int) else 1 << 31)
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
