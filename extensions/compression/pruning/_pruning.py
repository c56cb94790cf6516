"""Interface of pruning methods, which are hooks, and the cubic schedule."""

from abc import abstractmethod
from typing import Any, ClassVar

from clozeline.configuration.config import Natural, Positive, config_class
from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.configuration.capabilities import UNDOABLE_STEPS
from clozeline.train.hooks import Hook, UnwrappedModel


@config_class
class CubicOptions:
    """Steps of the cubic schedule of gradual pruning, and the matrices that are pruned.

    See arXiv 1710.01878 and 1902.09574.
    """

    start: Natural = 0
    """step t0 at which the schedule starts"""
    end: Positive | None = None
    """step at which the final value is reached; at most schedule.steps; null: two thirds of
    schedule.steps. With end = start, the final value is reached at once"""
    every: Positive = 10
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


class Pruning(Hook):
    """A way to remove parts of a model in training; methods that are not overridden do nothing.

    Args:
        options: options of the method.
    """

    Options: ClassVar[type[Any]]
    """Options, a frozen pydantic dataclass; the docstring of each field gives unit and range."""
    options: Any
    published_result: ClassVar[str]
    """Result that the paper reports, with its arXiv id; `clozeline compress --compare` prints
    it."""
    priority = 3
    prevents = frozenset({UNDOABLE_STEPS})
    unsupported: ClassVar[frozenset[str]] = frozenset()
    """Tensors of a batch that it does not support."""

    @abstractmethod
    def describe(self, model: Model, horizon: int) -> str:
        """Return the line that a run prints at its start.

        Raises:
            ConfigurationError: the model has nothing to prune, or the schedule of the pruning ends
                after `horizon`.
        """

    def wrap(self, new: UnwrappedModel) -> Model:
        self.lines = [self.describe(new.model, new.config.schedule.options.steps)]
        return new.model
