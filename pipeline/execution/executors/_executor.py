"""Interface between runner and executors: which units a task runs, and how a round runs them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from clozeline.memory import share_memory


class UnitWork(Protocol):
    """Work of a pass, called with each unit; it stores a result per unit."""

    @property
    def logs(self) -> Path: ...

    def __call__(self, unit: int) -> None: ...

    def has_result(self, unit: int) -> bool: ...


@dataclass(frozen=True)
class Assignment:
    """Assignment of units to tasks, and the datatrove step: task r of n runs units r, r + n, ..."""

    step: UnitWork
    units: Sequence[int]
    tasks: int
    input_bytes: int | None = None
    """approximate bytes that the pass reads; None: not known"""
    tick: Callable[[], None] | None = None
    """called after each unit that runs in the driver's process"""

    def __call__(self, data: Any, rank: int = 0, world_size: int = 1) -> Any:
        for unit in self.units[rank::world_size]:
            if not self.step.has_result(unit):
                self.step(unit)
                if self.tick is not None:
                    self.tick()
        return data

    def task_of(self, unit: int) -> int:
        """Return the task of a unit."""
        return self.units.index(unit) % self.tasks


class Executor(ABC):
    """Runs one round over units; the caller retries units without a result."""

    final: bool
    """true if units without a result must not be retried, for example after a canceled job"""

    @abstractmethod
    def run(
        self, assignment: Assignment, tick: Callable[[], None], report: Callable[[str], None]
    ) -> Mapping[int, str]:
        """Run every task; return messages about tasks that ended early, by task.

        `tick` is called repeatedly, and `report` shows a line to the user while it runs.
        """


def run_tasks(assignment: Assignment, ranks: Sequence[int]) -> None:
    """Run some tasks of an assignment in this process.

    It does without datatrove, whose logs of a task cost more than a small unit.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    for rank in ranks:
        assignment(None, rank, assignment.tasks)


def run_on_node(assignment: Assignment, rank: int, folder: Path) -> None:
    """Run one task on a node of a cluster by datatrove; its log is in `folder/logs/`."""
    from loguru import logger  # imported here alone, because it is slow

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    share_memory(len(os.sched_getaffinity(0)))  # each core of this node may have a task
    logger.disable("datatrove")  # it prints a banner, and tracebacks with the values of variables
    from datatrove.executor.local import LocalPipelineExecutor

    executor = LocalPipelineExecutor(
        [assignment],
        tasks=assignment.tasks,
        workers=1,
        logging_dir=str(folder),
        skip_completed=False,
    )
    # `run()` starts a manager process even for one worker, which outlives a killed driver.
    executor._run_for_rank(rank)
