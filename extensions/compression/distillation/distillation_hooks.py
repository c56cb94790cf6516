"""Train a model as the student of a teacher, also layer by layer."""

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from clozeline.errors import ConfigurationError
from clozeline.extensions.compression.distillation.stored_scores import read_stored_scores
from clozeline.extensions.compression.distillation.student import Stages, Student, Teacher
from clozeline.extensions.compression.distillation.teacher_model import (
    copy_layers,
    open_teacher,
    refuse_other_teacher,
)
from clozeline.model.build import Model
from clozeline.model.configuration.capabilities import Capability
from clozeline.seeding import hash64
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.hooks import Hook, HookContext, UnwrappedModel
from clozeline.train.hooks._depth_freezing import DepthFreezing


class Distillation(Hook):
    """Wraps the model as a student, with its teacher in memory, or stored scores in the batches."""

    options: Any
    """the value of the key `distil`"""
    student: Student
    teacher: Teacher | None = None

    def wrap(self, new: UnwrappedModel) -> Model:
        """Open the teacher, copy the layers to start from, and return the student.

        Raises:
            ConfigurationError: the teacher has another tokenizer or architecture, lacks what a loss
                or a copy needs, or is not the one of the checkpoint.
            CheckpointError: the teacher's run has no valid checkpoint.
        """
        # check that there is a teacher, or its scores
        distil = self.options
        stored = read_stored_scores(new.shards)
        if distil.teacher is None and not (distil.active and stored):
            names = ", ".join(loss.name for loss in distil.losses)
            raise ConfigurationError(
                f"distil.teacher: {names} needs a teacher: set it to a run or a model folder, or "
                f"use a set with scores of a teacher ({new.shards.path} has none)"
            )

        @cache
        def open_source(source: Path) -> TrainedModel:
            key = "distil.further" if source in distil.further else "distil.start"
            key = "distil.teacher" if source == distil.teacher else key
            return open_teacher(source, new.model.config, new.shards, key)

        # start from the layers of the teacher, unless a checkpoint has the weights
        lines: list[str] = []
        if distil.start is not None and distil.start_from is not None and new.saved is None:
            source = open_source(distil.start_from)
            lines += copy_layers(new.model, source, distil.start.layers, new.placement)

        # the student, with its projections
        trained = None if distil.teacher is None else open_source(distil.teacher)
        self.student = Student(
            new.model,
            distil.active,
            None if trained is None else trained.checkpoint.config,
            hash64("weights", new.config.seed),
            new.placement,
            distil.progressive,
        )
        self.record: dict[str, Any] = {"layers": self.student.layer_maps}
        lines += self.student.lines()

        # its teacher in memory, or stored scores
        if trained is not None:
            teachers = [trained, *map(open_source, distil.further)]
            self.record["digest"] = " ".join(each.weights_digest for each in teachers)
            further = (each.model for each in teachers[1:])
            self.teacher = Teacher(trained.model, self.student.teacher_tensors, *further)
            self._precision = new.config.precision
            self.student.teacher = self.teacher
            lines += (
                f"           teacher {each.folder}: {each.model.num_parameters():,} parameters, "
                f"{each.weights_digest}"
                for each in teachers
            )
        else:
            skipped = [loss.name for loss in distil.losses if loss not in distil.active]
            if distil.start is not None and distil.start_from is None:
                skipped.append("start.layers")
            if skipped:
                lines.append(f"           no teacher in memory: without {', '.join(skipped)}")
            if stored is not None:
                self.record["digest"] = stored.digest
                lines.append(f"           {stored}")

        if new.saved is not None:
            refuse_other_teacher(
                new.saved.added.get("distillation", {}), self.record, distil.teacher
            )
        self.lines = lines
        return self.student

    def attach(self, context: HookContext) -> None:
        super().attach(context)
        if self.teacher is not None:
            self.teacher.to(context.world.device, self._precision)

    @property
    def in_state(self) -> Mapping[str, Any]:
        return {"distillation": self.record}


class ProgressiveDistillation(Distillation, DepthFreezing):
    """Enters the stage of each step, and trains only its layers."""

    needs: ClassVar = set[Capability]()
    owns: ClassVar = set[str]()  # the settings of the key say both

    @property
    def _stages(self) -> Stages:
        assert self.student.stages is not None
        return self.student.stages

    def resume(self, step: int) -> None:
        """Enter the stage of the step: an evaluation may come before the next step."""
        self._stages.enter(max(step, 1))

    def trained_depths(self, step: int) -> Collection[int]:
        self._stages.enter(step)
        return self._stages.trained_depths
