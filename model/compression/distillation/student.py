"""A model that also learns from a teacher in memory: distillation losses are added to its heads' losses."""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self, cast

import torch
from torch import Tensor, nn

from clozeline.columns import TEACHER, names_of
from clozeline.errors import BatchError, ConfigurationError
from clozeline.model.build import Model, TokenCount
from clozeline.model.compression.distillation.losses import DistillationLoss
from clozeline.model.compression.distillation.observation import (
    label_logits,
    label_weights,
    observe,
)
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.flop_counts import DocumentCounts
from clozeline.model.heads import Head, Heads
from clozeline.model.layers.masks import real_tokens
from clozeline.model.loss import Loss
from clozeline.model.parameters.initial_values import generator_for, normal
from clozeline.model.parameters.sharding import UNSHARDED, Placement
from clozeline.model.registries import LossComponent

PREFIX: Final = "distil/"
"""Start of the names of these losses in metrics."""
OF_TEACHER: Final = "teacher_"
"""Start of the names of a teacher's tensors in a batch."""
STORED: Final = names_of(TEACHER)
"""Tensors of a batch with stored scores of a teacher."""


class LabelCount:
    """The divisor of a loss over the labels of a head; with stored scores, over those of batches that hold scores."""

    def __init__(self, head: Head, stored: bool) -> None:
        self.head = head
        self.stored = stored

    def count(self, tensors: Mapping[str, Tensor]) -> int:
        """Return the labels of a batch that count."""
        return 0 if self.stored and not tensors.keys() >= STORED else self.head.count(tensors)


class Student(Model):
    """A built model with the losses of distillation, whose parameters are named `distillation.LOSS.…`.

    Args:
        model: the model; its parts become those of the student, under the same names.
        losses: of the configuration.
        teacher: configuration of the teacher; None: none is in memory.
        seed: of the initial projections.
        placement: of their parameters over ranks.
        progressive: steps for each layer; None: all layers learn from the start.

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
        with placement.building():
            built = {loss.name: loss.build(model.config, teacher) for loss in losses}
            self.distillation = cast("Mapping[str, DistillationLoss]", nn.ModuleDict(built))
        with torch.no_grad():
            for name, parameter in self.new_parameters():
                with placement.gather([parameter]):
                    values = torch.empty(parameter.shape)
                    normal(parameter.shape[-1] ** -0.5)(values, generator_for(seed, name))
                    parameter.copy_(values)
        self.stored = any(not loss.live and teacher is None for loss in built.values())
        self.stages = (
            None if progressive is None else Stages(built, model.config.layers, progressive)
        )
        self._observed = frozenset[str]().union(*(loss.of_student for loss in built.values()))

    def new_parameters(self) -> list[tuple[str, nn.Parameter]]:
        """Return the parameters that are not the model's, by name."""
        return [
            (name, own) for name, own in self.named_parameters() if name.startswith("distillation.")
        ]

    @property
    def needed_of_teacher(self) -> frozenset[str]:
        """Tensors that a teacher in memory must compute, as `observation` names them."""
        return frozenset[str]().union(*(loss.of_teacher for loss in self.distillation.values()))

    @property
    def divisors(self) -> dict[str, Any]:
        """The object that counts the divisor of each loss."""
        divisors: dict[str, object] = {**super().divisors}
        for name, loss in self.distillation.items():
            own = (
                TokenCount()
                if loss.head is None
                else LabelCount(self.heads[loss.head], self.stored)
            )
            divisors[PREFIX + name] = own
        return divisors

    @property
    def loss_weights(self) -> dict[str, float]:
        """The factor of each mean loss, with `progressive` in its present stage."""
        own = {PREFIX + name: loss.options.weight for name, loss in self.distillation.items()}
        weights = {**super().loss_weights, **own}
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
            name: {str(here): there for here, there in loss.layers.items()}
            for name, loss in self.distillation.items()
            if loss.layers
        }

    def forward(self, tensors: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Return the loss of each head, and each loss of distillation under `distil/NAME`.

        An evaluation without stored scores has the losses of the heads alone.

        Raises:
            BatchError: see `Model.forward`; or the batch has no tensors of a teacher.
        """
        if self.stored and (missing := STORED - tensors.keys()):
            if not self.training:
                return super().forward(tensors)
            raise BatchError(
                f"batch: the loss scores needs {', '.join(sorted(missing))}, or distil.teacher"
            )
        with observe(self, self._observed) as seen:
            losses = super().forward(tensors)
        theirs = {
            name.removeprefix(OF_TEACHER): own
            for name, own in tensors.items()
            if name.startswith(OF_TEACHER)
        }
        for name, loss in self.distillation.items():
            # per label of a head, or per token
            with torch.no_grad():
                weights = (
                    real_tokens(tensors)
                    if loss.head is None
                    else label_weights(self.heads[loss.head], tensors)
                )
            divisor = weights.sum().long() if loss.head is None else losses[loss.head].divisor
            losses[PREFIX + name] = Loss(loss(seen, theirs, weights), divisor)
        return losses

    def lines(self) -> list[str]:
        """Return what a start prints: each loss, and the layers that it compares."""
        lines = []
        for name, loss in self.distillation.items():
            layers = " ".join(f"{here}→{there}" for here, there in loss.layers.items())
            what = f", student→teacher layers {layers}" if layers else f" of {loss.head}"
            lines.append(f"distil     {loss.options.weight:g} x {name}{what}")
        return lines if self.stages is None else [*lines, self.stages.line()]


class Stages:
    """Stages of a distillation, as a function of the step alone (MobileBERT, arXiv 2004.02984, section 3.3.2).

    In stage s the student's layer s learns from the losses that compare it, and nothing else counts
    or is trained; the embeddings belong to stage 1. After the last layer everything is trained, by
    the losses of heads and by those that do not go layer by layer.

    Args:
        losses: of the student, by name.
        layers: of the student.
        steps: of each stage but the last.

    Raises:
        ConfigurationError: a layer is compared by no loss, or a matrix that several layers share
            would be trained.
    """

    def __init__(self, losses: Mapping[str, DistillationLoss], layers: int, steps: int) -> None:
        self.losses = losses
        self.depth = layers
        self.steps = steps
        self.maps = {name: dict(loss.layers) for name, loss in losses.items() if loss.by_layer}
        compared = set[int]().union(*self.maps.values())
        if missing := sorted({*range(1, layers + 1)} - compared):
            raise ConfigurationError(
                "distil.progressive: expected states or attention in distil.losses that compare "
                f"each of the {layers} "
                f"layers, got none for {', '.join(map(str, missing))}: add them to its layers"
            )
        if mapped := [name for name in self.maps if any(True for _ in losses[name].parameters())]:
            raise ConfigurationError(
                f"distil.progressive: {mapped[0]} maps states to the teacher's width by one "
                "matrix for all layers: "
                "expected a student of the teacher's width"
            )
        self.stage = layers + 1

    def enter(self, step: int) -> None:
        """Enter the stage of a step, counted from 1: choose what the losses compare, and what is trained."""
        self.stage = min((step - 1) // self.steps, self.depth) + 1
        for name, layers in self.maps.items():
            self.losses[name].layers = {
                here: there for here, there in layers.items() if max(here, 1) == self.stage
            }

    def counts(self, name: str) -> bool:
        """Return whether a loss counts in this stage; heads and other losses do in the last."""
        return bool(self.losses[name].layers) if name in self.maps else self.stage > self.depth

    @property
    def trained_depths(self) -> Collection[int]:
        """The depths below the heads that are trained in this stage: the last layer is 1."""
        if self.stage > self.depth:
            return range(self.depth + 2)
        first = self.depth + 1 - self.stage
        return range(first, first + 1 + (self.stage == 1))

    def line(self) -> str:
        """Return what a start prints."""
        return (
            f"           layer by layer: {self.steps} steps each, all from step "
            f"{self.steps * self.depth + 1}"
        )


_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Teacher:
    """A model without dropout and gradients; not a part of what ZeRO wraps, so every rank holds all of it.

    Args:
        model: with its trained weights.
        wanted: tensors to compute, as `observation` names them.
    """

    def __init__(self, model: Model, wanted: Set[str]) -> None:
        self.model = model.eval().requires_grad_(False)
        self.wanted = frozenset(wanted)
        # heads that nothing compares would need labels; the others need not compute a loss
        read = {name: head for name, head in model.heads.items() if f"logits_{name}" in wanted}
        self._reads_heads = bool(read)
        if read:
            model.use_heads(
                replace(model.config, heads={name: model.config.heads[name] for name in read}),
                Heads(read),
            )
        for head in read.values():
            vars(head)["loss"] = partial(label_logits, head)

    def to(self, device: torch.device, precision: str) -> Self:
        """Move it to a device, in the type of the student's weights."""
        self.model.to(device, _TYPES[precision])
        return self

    def flops(
        self,
        tokens: int,
        target_tokens: int,
        labels: float | None,
        documents: DocumentCounts | None,
    ) -> float:
        """Return the FLOPs of a forward pass of one row; see `Model.flops`."""
        if self._reads_heads:
            return self.model.forward_flops(tokens, target_tokens, labels, documents)
        alone = {(tokens, target_tokens): 1.0} if documents is None else documents
        return sum(count * self.model.family.flops(*lengths) for lengths, count in alone.items())

    def __call__(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the wanted tensors of a batch, each under its name after `teacher_`."""
        with torch.no_grad(), observe(self.model, self.wanted) as seen:
            if self._reads_heads:
                self.model(tensors)
            else:
                self.model.family(tensors)
        return {OF_TEACHER + name: tensor for name, tensor in seen.items()}
