"""Interface of hooks: what a run is to them, and when the engine calls them.

    attach                           once, around a new engine
    start, or create and resume      at step 0, or at a checkpoint
    begin                            of each step, before the first forward pass
        after_backward               of each micro-batch
    end                              after the update

A hook that changes gradients does so in `attach`, by hooks of torch: on parameters, whose gradients
are those of a micro-batch, or before the optimizer's step, where gradients are averaged over ranks
and clipped.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from clozeline.configuration.config import NoOptions
from clozeline.model.build import Model
from clozeline.model.configuration.conflicts import Conflict
from clozeline.report.recorded_series import RecordedSeries
from clozeline.train.distributed.process_group import World
from clozeline.train.optim.weights.flat_buffers import Layout


@dataclass(frozen=True)
class StepInfo:
    """An optimizer step, as hooks see it."""

    index: int
    """from 1"""
    skipped: int
    """steps before it whose gradient was not finite"""
    rows: int
    """of the global batch"""
    counts: Mapping[str, float]
    """loss → its divisor in the global batch"""
    rate: float
    """learning rate relative to its peak"""
    recorded: bool
    """True if the figures of the step are recorded"""


@dataclass(frozen=True)
class HookContext:
    """A model under ZeRO, and the run that trains it."""

    model: Model
    optimizer: torch.optim.Optimizer
    flats: Sequence[tuple[Tensor, str]]
    """tensors that the optimizer updates, and the names of their groups"""
    layout: Layout
    """the parameters in these tensors"""
    refresh_model: Callable[[], None]
    """copies these tensors into the model; a collective call"""
    world: World
    seed: int
    horizon: int
    """last step of the learning-rate schedule"""
    stage: int
    """ZeRO stage of the configuration"""
    clipping: float
    """maximum gradient norm; 0: none"""


class Hook:
    """Follows a training; a method that is not overridden does nothing."""

    Options: ClassVar[type[Any]] = NoOptions
    priority: ClassVar[int] = 1
    """Order of the calls: 0 reads gradients before the others change them, 1 changes gradients,
    weights, or what is trained, 2 reads the gradients that are left, 3 removes parts of the model,
    4 reads the weights of the step."""
    charts: ClassVar[Sequence[RecordedSeries]] = ()
    """What the report draws of the entries that `end` returns."""
    observes: ClassVar[bool] = False
    """It changes no result, so that a resumed run may have it or not."""
    keys: frozenset[str] = frozenset()
    """Names of its elementwise states in a checkpoint, which no other hook and no optimizer has."""
    numbers: ClassVar[int] = 0
    """fp32 numbers of state per parameter, for the memory estimate."""
    by_depth: ClassVar[bool] = False
    """It needs groups of the optimizer by depth below the heads."""
    separate_matrices: ClassVar[bool] = False
    """It needs the matrices of layers in groups `matrix` of the optimizer."""
    conflicts: ClassVar[Mapping[Conflict, str]] = MappingProxyType({})
    """Keys of the training configuration that it does not work with, and why."""

    def __init__(self, options: object) -> None:
        self.options = options
        self.of: dict[Tensor, dict[str, Tensor]] = {}
        """States of each optimizer tensor, in its shape, saved and resumed like optimizer state"""

    @classmethod
    def check(cls, config: object) -> None:
        """Check the training configuration beyond `conflicts`; raise a ValueError that names the key."""

    def wrap(self, model: Model) -> Model:
        """Return the model to train, with the same parts under the same names."""
        return model

    def attach(self, context: HookContext) -> None:
        """Hook into a model and its optimizer, before the first step."""

    def start(self, fresh: Collection[str], *, initialized: bool) -> None:
        """Set the states that no checkpoint contained; a collective call.

        `initialized`: the weights come from `model.init_from`, except for the `fresh` parameters.
        """

    def create(self, flat: Tensor, names: Collection[str]) -> None:
        """Create the states of an optimizer tensor that a checkpoint contains, zeros to be overwritten."""
        for name in sorted(self.keys.intersection(names)):
            self.of.setdefault(flat, {})[name] = torch.zeros_like(flat, requires_grad=False)

    def resume(self, step: int) -> None:
        """Go on after `step` steps, whose states are loaded."""

    def begin(self, step: StepInfo) -> None:
        """Start a step."""

    def after_backward(self, batch: Mapping[str, Tensor]) -> None:
        """Follow the backward pass of a micro-batch."""

    def end(self, step: StepInfo, norm: float) -> Mapping[str, Any]:
        """End a step with this gradient norm, inf if nothing was updated; a collective call.

        Returns:
            entries for the record of the step in metrics.jsonl, the same on every rank.
        """
        return {}

    @property
    def buffers(self) -> Mapping[str, Tensor]:
        """Tensors for a checkpoint that every rank holds, by name."""
        return {}

    @property
    def in_state(self) -> Mapping[str, Any]:
        """Values of the checkpoint's `TrainState` that follow this hook, by field."""
        return {}
