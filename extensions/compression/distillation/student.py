"""A model that also learns from a teacher: distillation losses are added to those of its heads."""

from collections.abc import Collection, Mapping, Sequence, Set
from functools import partial
from typing import Any, Final, Self, cast

import torch
from torch import Tensor, nn

from clozeline.columns import TEACHER, names_of
from clozeline.errors import BatchError, ConfigurationError
from clozeline.extensions.compression.distillation.losses import DistillationLoss
from clozeline.extensions.compression.distillation.observation import (
    label_logits,
    observe,
)
from clozeline.extensions.compression.registries import LossComponent
from clozeline.model.build import Model, TokenCount
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads import Head, Heads
from clozeline.model.layers.masks import real_tokens
from clozeline.model.loss import Loss
from clozeline.model.parameters.initial_values import generator_for, normal
from clozeline.model.parameters.sharding import UNSHARDED, Placement

PREFIX: Final = "distil/"
"""Prefix of these losses in metrics."""
TEACHER_PREFIX: Final = "teacher_"
"""Prefix of a teacher's tensors in a batch."""
STORED: Final = names_of(TEACHER)
"""Tensors of a batch with stored scores of a teacher."""


class LabelCount:
    """Count the labels of a head, the divisor of a loss.

    If `stored`, only batches with stored scores count.
    """

    def __init__(self, head: Head, stored: bool) -> None:
        self.head = head
        self.stored = stored

    def count(self, tensors: Mapping[str, Tensor]) -> int:
        """Return the number of labels of a batch that have a loss."""
        return 0 if self.stored and not tensors.keys() >= STORED else self.head.count(tensors)


class Student(Model):
    """A built model with distillation losses, whose parameters are named `distillation.LOSS.…`.

    Args:
        model: the model; its parts become those of the student, under the same names.
        losses: losses of the configuration.
        teacher: configuration of the teacher; None: no teacher is in memory.
        seed: seed of the initial projections.
        placement: how their parameters are distributed over ranks.
        progressive: number of steps per layer; None: all layers learn from the start.

    Raises:
        ConfigurationError: a loss cannot compare these two models.
    """

    def __init__(
        self,
        model: Model,
        losses: Sequence[LossComponent],
        teacher: ModelConfig | None,
        seed: int = 0,
        placement: Placement = UNSHARDED,
        progressive: int | None = None,
    ) -> None:
        self.adopt_parts(model)
        # projections of the losses, with initial values from the seed
        with placement.building():
            built = {loss.name: loss.build(model.config, teacher) for loss in losses}
            self.distillation = cast("Mapping[str, DistillationLoss]", nn.ModuleDict(built))

        with torch.no_grad():
            for name, parameter in self.new_parameters():
                with placement.gather([parameter]):
                    values = torch.empty(parameter.shape)
                    normal(parameter.shape[-1] ** -0.5)(values, generator_for(seed, name))
                    parameter.copy_(values)

        self.stored = any(not loss.needs_teacher and teacher is None for loss in built.values())
        self.stages = (
            None if progressive is None else Stages(built, model.config.layers, progressive)
        )
        self._observed = frozenset[str]().union(*(loss.student_tensors for loss in built.values()))
        self.teacher: Teacher | None = None
        """Teacher in memory, which is no part of this model."""

    def new_parameters(self) -> list[tuple[str, nn.Parameter]]:
        """Return the parameters of the losses, by name."""
        return [
            (name, parameter)
            for name, parameter in self.named_parameters()
            if name.startswith("distillation.")
        ]

    @property
    def teacher_tensors(self) -> frozenset[str]:
        """Tensors that a teacher in memory must compute, as `observation` names them."""
        return frozenset[str]().union(
            *(loss.teacher_tensors for loss in self.distillation.values())
        )

    @property
    def divisors(self) -> dict[str, Any]:
        """The object that counts the divisor of each loss."""
        divisors: dict[str, object] = {**super().divisors}
        for name, loss in self.distillation.items():
            divisors[PREFIX + name] = (
                TokenCount()
                if loss.head is None
                else LabelCount(self.heads[loss.head], self.stored)
            )
        return divisors

    @property
    def loss_weights(self) -> dict[str, float]:
        """The factor of each mean loss; with `progressive`, in the current stage."""
        distillation = {
            PREFIX + name: loss.options.weight for name, loss in self.distillation.items()
        }
        weights = {**super().loss_weights, **distillation}
        if (stages := self.stages) is None:
            return weights
        return {
            name: weight * stages.counts(name.removeprefix(PREFIX))
            for name, weight in weights.items()
        }

    @property
    def layer_maps(self) -> dict[str, dict[str, int]]:
        """Layers that each loss compares: the student's, as text, to the teacher's."""
        return {
            name: {str(student): teacher for student, teacher in loss.layers.items()}
            for name, loss in self.distillation.items()
            if loss.layers
        }

    def forward(self, tensors: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Return the loss of each head, and each distillation loss under `distil/NAME`.

        An evaluation without stored scores only has the losses of the heads.

        Raises:
            BatchError: see `Model.forward`; or the batch has no tensors of a teacher.
        """
        if self.stored and (missing := STORED - tensors.keys()):
            if not self.training:
                return super().forward(tensors)
            raise BatchError(
                f"batch: the loss scores needs {', '.join(sorted(missing))}, or set distil.teacher"
            )
        if self.teacher is not None:
            tensors = {**tensors, **self.teacher(tensors)}
        # the student's tensors are recorded in the forward pass, the teacher's are in the batch
        with observe(self, self._observed) as seen:
            losses = super().forward(tensors)
        teacher = {
            name.removeprefix(TEACHER_PREFIX): tensor
            for name, tensor in tensors.items()
            if name.startswith(TEACHER_PREFIX)
        }

        for name, loss in self.distillation.items():
            # weights of the labels of a head, or of tokens
            with torch.no_grad():
                weights = (
                    real_tokens(tensors)
                    if loss.head is None
                    else self.heads[loss.head].labels(tensors)[1]
                )
            divisor = weights.sum().long() if loss.head is None else losses[loss.head].divisor
            losses[PREFIX + name] = Loss(loss(seen, teacher, weights), divisor)

        return losses

    def flops(self, *sizes: Any, **further: Any) -> float:
        """Return the FLOPs of one row, and those of a teacher in memory."""
        return super().flops(*sizes, **further) + self._teacher_flops(*sizes, **further)

    def forward_flops(self, *sizes: Any, **further: Any) -> float:
        """Return the FLOPs of one row's forward pass, and those of a teacher in memory."""
        return super().forward_flops(*sizes, **further) + self._teacher_flops(*sizes, **further)

    def _teacher_flops(self, *sizes: Any, **further: Any) -> float:
        models = () if self.teacher is None else self.teacher.models
        return sum(model.forward_flops(*sizes, **further) for model in models)

    def lines(self) -> list[str]:
        """Return the lines that a run prints first: each loss, and the layers it compares."""
        lines = []
        for name, loss in self.distillation.items():
            layers = " ".join(f"{student}→{teacher}" for student, teacher in loss.layers.items())
            scope = f", student→teacher layers {layers}" if layers else f" of {loss.head}"
            lines.append(f"distil     {loss.options.weight:g} x {name}{scope}")
        return lines if self.stages is None else [*lines, self.stages.line()]


class Stages:
    """Stages of progressive distillation, as a function of the step.

    See MobileBERT, arXiv 2004.02984 §3.3.2.

    In stage s, the student's layer s learns from the losses that compare it; nothing else counts or
    trains. The embeddings belong to stage 1. After the last layer everything trains, with the
    losses of heads and the losses that do not compare layers.

    Args:
        losses: losses of the student, by name.
        layers: number of layers of the student.
        steps: number of steps of each stage but the last.

    Raises:
        ConfigurationError: no loss compares some layer, or a matrix that several layers share
            would train.
    """

    def __init__(self, losses: Mapping[str, DistillationLoss], layers: int, steps: int) -> None:
        self.losses = losses
        self.depth = layers
        self.steps = steps
        self.maps = {name: dict(loss.layers) for name, loss in losses.items() if loss.by_layer}
        compared = set[int]().union(*self.maps.values())
        if missing := sorted({*range(1, layers + 1)} - compared):
            raise ConfigurationError(
                f"distil.progressive: each of the {layers} layers needs a loss states or attention "
                f"that compares it, but none compares {', '.join(map(str, missing))}: add them to "
                "the layers of a loss"
            )

        # a stage trains one layer alone, so no parameters of a loss may be shared between layers
        if mapped := [name for name in self.maps if list(losses[name].parameters())]:
            raise ConfigurationError(
                f"distil.progressive: {mapped[0]} projects states to the teacher's width with one "
                "matrix for all layers: set model.dim to the teacher's width"
            )

        self.stage = layers + 1

    def enter(self, step: int) -> None:
        """Enter the stage of a step, from 1: set what the losses compare, and what trains."""
        self.stage = min((step - 1) // self.steps, self.depth) + 1
        for name, layers in self.maps.items():
            self.losses[name].layers = {
                student: teacher
                for student, teacher in layers.items()
                if max(student, 1) == self.stage
            }

    def counts(self, name: str) -> bool:
        """Return whether a loss counts in this stage; others than layer losses count last."""
        return bool(self.losses[name].layers) if name in self.maps else self.stage > self.depth

    @property
    def trained_depths(self) -> Collection[int]:
        """Depths below the heads that train in this stage; 1 is the last layer."""
        if self.stage > self.depth:
            return range(self.depth + 2)
        first = self.depth + 1 - self.stage
        return range(first, first + 1 + (self.stage == 1))

    def line(self) -> str:
        """Return the line that a run prints at its start."""
        return (
            f"           layer by layer: {self.steps} steps each, all layers from step "
            f"{self.steps * self.depth + 1}"
        )


_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Teacher:
    """Models without dropout and gradients, outside of what ZeRO wraps: each rank has all of them.

    Args:
        model: model with its trained weights.
        wanted: tensors to compute, as `observation` names them.
        further: models with their weights; the mean of the tensors of all counts.
    """

    def __init__(self, model: Model, wanted: Set[str], *further: Model) -> None:
        self.model = model
        self.models = (model, *further)
        self.wanted = frozenset(wanted)
        for model in self.models:
            model.eval().requires_grad_(False)
            # heads that nothing compares would need labels, and the compared ones need no loss
            read = {name: head for name, head in model.heads.items() if f"logits_{name}" in wanted}
            model.use_heads(model.config, Heads(read))

            for head in read.values():
                vars(head)["loss"] = partial(label_logits, head)

    def to(self, device: torch.device, precision: str) -> Self:
        """Move them to a device, in the dtype of the student's weights."""
        for model in self.models:
            model.to(device, _TYPES[precision])
        return self

    def __call__(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the wanted tensors of a batch, each under its name with the prefix `teacher_`."""
        found = []
        for model in self.models:
            with torch.no_grad(), observe(model, self.wanted) as seen:
                model(tensors)
            found.append(seen)
        mean = found[0]
        if len(found) > 1:
            mean = {name: torch.stack([seen[name] for seen in found]).mean(0) for name in mean}
        return {TEACHER_PREFIX + name: tensor for name, tensor in mean.items()}
