"""Executors, one per file: where the units of a pass run. The output does not depend on the executor."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # the options of executors are listed without what they run
    from clozeline.pipeline.execution.stages import UnitRunner
    from clozeline.pipeline.recipe import ExecutorConfig


@dataclass(frozen=True)
class Deal:
    """The datatrove step: task r of n runs units r, r + n, ..."""

    step: UnitRunner
    units: Sequence[int]
    tasks: int
    tick: Callable[[], None] | None = None  # called after each unit, where it runs in the driver's process

    def __call__(self, data: Any, rank: int = 0, world_size: int = 1) -> Any:
        for unit in self.units[rank::world_size]:
            if not self.step.has_result(unit):
                self.step(unit)
                if self.tick is not None:
                    self.tick()
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
        """Run every task, calling `tick` repeatedly; return messages about tasks that ended early, by task."""


def logs_apart() -> None:
    """Silence datatrove, which prints a banner and a traceback with variable values for every task."""
    from loguru import logger  # the rest of a start has no use for it

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    logger.disable("datatrove")
