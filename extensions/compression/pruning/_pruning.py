"""Interface of pruning methods, what they know of a training run, and the cubic schedule."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.configuration.capabilities import UNDOABLE_STEPS, Declared


@config_class
class CubicOptions:
    """Steps of the cubic schedule of gradual pruning, and the matrices that are pruned.

    See arXiv 1710.01878 and 1902.09574.
    """

    start: Annotated[int, Field(ge=0)] = 0
    """step t0 at which the schedule starts"""
    end: Annotated[int, Field(ge=1)] | None = None
    """step at which the final value is reached; at most schedule.steps; null: two thirds of
    schedule.steps. With end = start, the final value is reached at once"""
    every: Annotated[int, Field(ge=1)] = 10
    """steps between two updates of the masks"""
    parameters: tuple[str, ...] = ()
    """regular expressions for full names of the matrices to prune; default: the linear maps of all
    layers"""

    def __post_init__(self) -> None:
        if self.end is not None and self.end < self.start:
            raise ValueError(f"end: expected start {self.start} or a later step, got {self.end}")

    def last_step(self, horizon: int) -> int:
        """Return the step of the final value.

        Raises:
            ConfigurationError: it is after the last step, `horizon`.
        """
        last = max(self.start, 2 * horizon // 3, 1) if self.end is None else self.end
        if last > horizon:
            key = "end" if self.end is not None else "start"
            raise ConfigurationError(
                f"prune.{key}: expected at most {horizon}, the last step of the schedule "
                f"(schedule.steps, by default steps), got {last}: the model would never be "
                "completely pruned"
            )
        return last

    def is_due(self, step: int, last: int) -> bool:
        """Return whether the masks change after a step, until the final value is reached."""
        return self.start <= step <= last and (
            (step - self.start) % self.every == 0 or step == last
        )

    def progress(self, step: int, last: int) -> float:
        """Return the progress from the initial to the final value, 1 - (1 - (t - t0) / (nΔt))³.

        Example:
            >>> options = CubicOptions(end=100)
            >>> [round(0.9 * options.progress(step, 100), 4) for step in (0, 25, 50, 75, 100)]
            [0.0, 0.5203, 0.7875, 0.8859, 0.9]
        """
        if step >= last:
            return 1.0
        return 1.0 - (1.0 - max(step - self.start, 0) / (last - self.start)) ** 3


@dataclass(frozen=True)
class PruningContext:
    """A model in training, as methods see it."""

    model: Model
    seed: int
    horizon: int
    """last step of the learning-rate schedule"""
    device: torch.device
    gathers_layers: bool
    """whether ranks gather the parameters of one layer after another, all in the same order (ZeRO
    stage 3)"""


class Pruning(Declared):
    """A way to remove parts of a model in training; methods that are not overridden do nothing.

    Args:
        options: options of the method.
    """

    Options: ClassVar[type[Any]]
    """Options, a frozen pydantic dataclass; the docstring of each field gives unit and range."""
    published_result: ClassVar[str]
    """Result that the paper reports, with its arXiv id; `clozeline compress --compare` prints
    it."""
    prevents = frozenset({UNDOABLE_STEPS})
    unsupported: ClassVar[frozenset[str]] = frozenset()
    """Tensors of a batch that it does not support."""

    def __init__(self, options: Any) -> None:
        self.options = options

    @abstractmethod
    def describe(self, model: Model, horizon: int) -> str:
        """Return the line that a run prints at its start.

        Raises:
            ConfigurationError: the model has nothing to prune, or the schedule of the pruning ends
                after `horizon`.
        """

    def wrap(self, model: Model) -> Model:
        """Return the model to train, with the same parts under the same names."""
        return model

    def attach(self, context: PruningContext) -> None:
        """Prepare a model for its training, before the first step."""
        self.context = context

    def resume(self, step: int) -> None:
        """Continue after `step` steps, whose states are loaded."""

    def begin(self, step: int, rate: float) -> None:
        """Start a step, from 1, with this learning rate relative to its peak."""

    def end(self, step: int) -> None:
        """Remove what is due after a step; all ranks must call it."""

    @property
    def buffers(self) -> Mapping[str, Tensor]:
        """Tensors for a checkpoint that every rank holds, by name."""
        return {}

    @property
    def state_fields(self) -> Mapping[str, Any]:
        """Values of this method in the checkpoint's `TrainState`, by field."""
        return {}
