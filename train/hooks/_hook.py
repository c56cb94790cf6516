"""Interface of hooks, and the order in which the engine calls them.

    wrap                             once, around a new model
    attach                           once, around a new engine
    start, or create and resume      at step 0, or at a checkpoint
    begin                            of each step, before the first forward pass
    end                              after the update

A hook that changes gradients registers hooks of torch in `attach`: on parameters, for the gradients
of a micro-batch, or before the optimizer's step, where gradients are averaged over ranks and
clipped. The gradient of a micro-batch is its part of the mean over the global batch, times the
number of ranks: scale a threshold likewise. DeepSpeed steps once per parameter group from ZeRO
stage 1 on: `param_groups` then holds this group alone, and the gradients of the others are not
there. A hook that needs all of them at once adds up over the groups.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from clozeline.configuration.config import NoOptions
from clozeline.model.build import Model
from clozeline.model.configuration.capabilities import Declared
from clozeline.model.parameters.sharding import UNSHARDED, Placement
from clozeline.pipeline.shards import ShardSet
from clozeline.report.recorded_series import RecordedSeries
from clozeline.train.distributed.process_group import World
from clozeline.train.optim.weights.flat_buffers import Layout


@dataclass(frozen=True)
class StepInfo:
    """The description of an optimizer step for hooks."""

    index: int
    """index of the step, from 1"""
    skipped: int
    """earlier steps whose gradient was not finite"""
    rows: int
    """rows of the global batch"""
    counts: Mapping[str, float]
    """loss → its divisor in the global batch"""
    rate: float
    """learning rate relative to its peak"""
    recorded: bool
    """True if metrics.jsonl has a record of the step"""


@dataclass(frozen=True)
class UnwrappedModel:
    """A model that a run builds, before ZeRO, as hooks see it."""

    model: Model
    config: Any
    """configuration of the training"""
    shards: ShardSet
    """the first training set"""
    placement: Placement = UNSHARDED
    """how parameters are distributed over ranks"""
    saved: Any = None
    """state of the checkpoint that the run resumes from; None at a start"""


@dataclass(frozen=True)
class HookContext:
    """The model under ZeRO and the settings of its run, for hooks."""

    model: Model
    optimizer: torch.optim.Optimizer
    flats: Sequence[tuple[Tensor, str]]
    """flat buffers that the optimizer updates, and the names of their groups"""
    layout: Layout
    """the parameters in these buffers"""
    refresh_model: Callable[[], None]
    """copies these buffers into the model; a collective call"""
    world: World
    seed: int
    horizon: int
    """last step of the learning-rate schedule"""
    stage: int
    """ZeRO stage of the configuration"""
    clipping: float
    """maximum gradient norm; 0: none"""


class Hook(Declared):
    """Observes or changes a training; a method that is not overridden does nothing."""

    Options: ClassVar[type[Any]] = NoOptions
    priority: ClassVar[int] = 1
    """Order of the calls, lowest first: 0 reads gradients before they change; 1 changes gradients,
    weights, or which parameters train; 2 reads the final gradients; 3 removes parts of the model; 4
    reads the weights after the step."""
    charts: ClassVar[Sequence[RecordedSeries]] = ()
    """Charts of the report, from the entries that `end` returns."""
    observes: ClassVar[bool] = False
    """It changes no result: a resumed run may add or remove it."""
    numbers: ClassVar[int] = 0
    """fp32 numbers of state per parameter, for the memory estimate."""
    by_depth: ClassVar[bool] = False
    """It needs optimizer groups by depth below the heads."""
    separate_matrices: ClassVar[bool] = False
    """It needs the matrices of layers in optimizer groups `matrix`."""

    def __init__(self, options: object) -> None:
        self.options = options
        self.of: dict[Tensor, dict[str, Tensor]] = {}
        """States of each flat buffer, in its shape, saved and resumed like optimizer state."""
        self.lines: Sequence[str] = ()
        """Lines that a start prints, after `wrap`."""

    @classmethod
    def check(cls, config: object) -> None:
        """Check the numbers of the training configuration.

        Raises:
            ValueError: it does not fit; the message names the key.
        """

    def wrap(self, new: UnwrappedModel) -> Model:
        """Return the model to train, with the same parameters under the same names.

        It may have further parameters, outside of `family`, `heads` and `adapters`: tools that read
        a run leave them out.

        Raises:
            ClozelineError: the hook does not fit the model, the data or the checkpoint.
        """
        return new.model

    def attach(self, context: HookContext) -> None:
        """Hook into a model and its optimizer, before the first step."""

    def start(self, fresh: Collection[str], *, initialized: bool) -> None:
        """Set the states that were not in a checkpoint; a collective call.

        `initialized`: the weights come from `model.init_from`, except for the `fresh` parameters.
        """

    def create(self, flat: Tensor, names: Collection[str]) -> None:
        """Create the states of a flat buffer that are in a checkpoint, zeros to be overwritten."""
        for name in sorted(self.keys.intersection(names)):
            self.of.setdefault(flat, {})[name] = torch.zeros_like(flat, requires_grad=False)

    def resume(self, step: int) -> None:
        """Continue after `step` steps; the states are loaded."""

    def begin(self, step: StepInfo) -> None:
        """Start a step."""

    def end(self, step: StepInfo, norm: float) -> Mapping[str, Any]:
        """End a step; a collective call.

        `norm`: gradient norm of the step, inf if nothing was updated.

        Returns:
            entries for the record of the step in metrics.jsonl, the same on every rank.
        """
        return {}

    @property
    def buffers(self) -> Mapping[str, Tensor]:
        """Name → tensor for checkpoints, the same on every rank."""
        return {}

    @property
    def in_state(self) -> Mapping[str, Any]:
        """Entries of the checkpoint's state that this hook sets, also before the first step.

        Their keys are those of `train.checkpoint.keys`.
        """
        return {}
