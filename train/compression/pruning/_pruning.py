"""Interface of pruning methods: what a run is to them, and when the engine calls them."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import torch
from torch import Tensor

from clozeline.model.adaptive_computation.token_rules import RuleRecord
from clozeline.model.build import Model
from clozeline.train.optim.weights.flat_buffers import Layout

PRUNING_STATES: Final = frozenset(
    {"mask", "dense", "scores", "score_mean", "score_square", "origin", "sensitivity", "uncertainty"}
)
"""Names of the elementwise states of all methods in a checkpoint."""


@dataclass(frozen=True)
class Trained:
    """A model under ZeRO, and the run that trains it."""

    model: Model
    deepspeed: Any
    """DeepSpeed's engine"""
    layout: Layout
    seed: int
    horizon: int
    """last step of the learning-rate schedule"""
    stage: int
    """ZeRO stage of the configuration"""

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The torch optimizer inside DeepSpeed's."""
        return self.deepspeed.basic_optimizer


class Pruning(ABC):
    """A way to remove parts of a model while it is trained."""

    Options: ClassVar[type]
    claim: ClassVar[str]
    """Result that the paper reports, with its arXiv id; `clozeline compress --compare` prints it."""
    conflicts: ClassVar[Mapping[str, str]]
    """Keys of the training configuration that this method does not work with, and why."""
    unread: ClassVar[frozenset[str]] = frozenset()
    """Tensors of a batch that this method does not work with."""
    masks: ClassVar[bool] = True
    """It masks matrices of layers, which then form groups `matrix` of the optimizer."""

    def __init__(self, options: Any) -> None:
        self.options = options
        self.of: dict[Tensor, dict[str, Tensor]] = {}
        """States of each optimizer tensor, in its shape"""

    @abstractmethod
    def describe(self, model: Model, horizon: int) -> str:
        """Return the line that a start prints.

        Raises:
            ConfigurationError: the model has nothing to prune, or the schedule of the pruning is beyond `horizon`.
        """

    def wrap(self, model: Model) -> Model:
        """Return the model to train, with the same parts under the same names."""
        return model

    @abstractmethod
    def attach(self, trained: Trained) -> None:
        """Hook into a model and its optimizer, before the first step."""

    @property
    def token_rule(self) -> RuleRecord:
        """The rule by which the model drops tokens from now on, for the state of a checkpoint; empty: none."""
        return {}

    @property
    def buffers(self) -> dict[str, Tensor]:
        """Tensors for a checkpoint that every rank holds, by name."""
        return {}

    def create(self, flat: Tensor, names: Collection[str]) -> None:
        """Create the states of an optimizer tensor that a checkpoint contains, zeros to be overwritten."""
        for name in PRUNING_STATES.intersection(names):
            self.of.setdefault(flat, {})[name] = torch.zeros_like(flat, requires_grad=False)

    def start(self, fresh: Collection[str], *, initialized: bool) -> None:  # noqa: B027
        """Set the states that no checkpoint contained, and apply masks; a collective call.

        `initialized`: the weights come from `model.init_from`, except for the `fresh` parameters.
        """

    def begin(self, step: int, rate: float) -> None:  # noqa: B027
        """Start a step, counted from 1; `rate` is its learning rate relative to the peak."""

    def end(self, step: int) -> None:  # noqa: B027
        """End a step; a collective call."""
