"""The teacher of a distillation, its losses, and the layers that a student starts from."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from clozeline.configuration.config import HOME_EXPANDED, MayChange, config_class
from clozeline.extensions.compression.registries import DISTILLATION_LOSSES, LossComponent
from clozeline.hub import MODEL_FETCHED


@config_class
class StudentStart:
    """Weights that a student starts from."""

    layers: tuple[Annotated[int, Field(ge=0)], ...]
    """layer of the teacher that each layer of the student copies, both from 0: [0, 2, 4, 6, 8, 10].
    Embeddings and heads are copied, too"""
    source: Annotated[Path, HOME_EXPANDED, MODEL_FETCHED] | None = None
    """run or model folder to copy from, also as `hf://org/name`; null: distil.teacher"""


@config_class
class DistilOptions:
    """Options of a distillation."""

    teacher: MayChange[Annotated[Path, HOME_EXPANDED, MODEL_FETCHED] | None] = None
    """run or model folder, or `hf://org/name`, that is compared with the model, held in memory on
    every rank; null: the scores that are stored with the data, which only the loss scores reads"""
    losses: list[LossComponent] = Field(default_factory=DISTILLATION_LOSSES.defaults("scores"))
    """losses in addition to the heads': [{name: scores, temperature: 2.0, weight: 5.0}, cosine]"""
    start: MayChange[StudentStart | None] = None
    """initial weights from layers of the teacher, {layers: [0, 2, 4]}; null: random or
    model.init_from"""

    progressive: Annotated[int, Field(ge=1)] | None = None
    """steps for each layer of the student, from the first on: they train this layer alone, by
    states and attention (arXiv 2004.02984). Afterwards everything is trained, by the other losses.
    null: all of it from the start"""

    def __post_init__(self) -> None:
        names = [loss.name for loss in self.losses]
        if len(set(names)) < len(names) or not names:
            raise ValueError(
                f"losses: expected one or more, each once, got {', '.join(names) or 'none'}"
            )

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
