"""Executors, one per file: where the units of a pass run. The output does not depend on the executor."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from loguru import logger

from clozeline.pipeline.recipe import ExecutorConfig


class UnitStep(Protocol):
    """Work of a worker on one unit. Picklable."""

    @property
    def logs(self) -> Path:
        """The folder for logs of this pass."""

    def __call__(self, unit: int) -> None:
        """Run the unit; its errors are recorded, not raised."""

    def has_result(self, unit: int) -> bool:
        """Return whether the unit has succeeded or failed in this run."""

    def has_started(self, unit: int) -> bool:
        """Return whether a worker started the unit without a result."""

    def give_up(self, unit: int, reason: str) -> None:
        """Record the unit as failed."""


@dataclass(frozen=True)
class Deal:
    """The datatrove step: task r of n runs units r, r + n, ..."""

    step: UnitStep
    units: Sequence[int]
    tasks: int

    def __call__(self, data: Any, rank: int = 0, world_size: int = 1) -> Any:
        for unit in self.units[rank::world_size]:
            if not self.step.has_result(unit):
                self.step(unit)
        return data

    def task_of(self, unit: int) -> int:
        """Return the task that has a unit."""
        return self.units.index(unit) % self.tasks

    def is_complete(self) -> bool:
        """Return whether every unit has a result."""
        return all(map(self.step.has_result, self.units))


class Executor(Protocol):
    """One round over units. The caller retries or gives up units without a result."""

    final: bool
    """true if units without a result must not be retried, such as after a canceled job"""

    def __init__(self, options: Any, config: ExecutorConfig) -> None: ...

    def run(self, deal: Deal, tick: Callable[[], None]) -> Mapping[int, str]:
        """Run every task; return messages about tasks that ended early.

        Args:
            deal: the units, and how they are dealt to tasks.
            tick: progress callback, to be called repeatedly.
        """


def workers_of(config: ExecutorConfig, tasks: int) -> int:
    """Return how many processes run at a time on this machine."""
    return min(config.workers or os.cpu_count() or 1, tasks)


def logs_apart() -> None:
    """Silence datatrove, which prints a banner and a traceback with variable values for every task."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    logger.disable("datatrove")
