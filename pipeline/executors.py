"""Running units in processes: datatrove executors, supervised so that nothing is lost and nothing is left behind.

Each worker process runs its own datatrove executor over the tasks it was dealt. A worker that dies takes only the
unit it was at: that unit is tried once more, then recorded as failed, and the others go on.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any, Final, Protocol

from loguru import logger

from pipeline.recipe import ExecutorConfig

__all__ = ["UnitStep", "die_with_parent", "run_units"]

_POLL_S: Final = 0.2
_ATTEMPTS: Final = 2


class UnitStep(Protocol):
    """What a worker does with a unit; picklable."""

    def __call__(self, unit: int) -> None:
        """Run the unit; mistakes of the unit itself are recorded, not raised."""

    def done(self, unit: int) -> bool:
        """Whether the unit has been dealt with, well or not, in this run."""

    def started(self, unit: int) -> bool:
        """Whether a worker began the unit without dealing with it."""

    def give_up(self, unit: int, reason: str) -> None:
        """Record the unit as failed."""


@dataclass(frozen=True)
class _Deal:
    """The datatrove step: task r of n runs units r, r + n, ..."""

    step: UnitStep
    units: Sequence[int]

    def __call__(self, data: Any, rank: int = 0, world_size: int = 1) -> Any:
        for unit in self.units[rank::world_size]:
            if not self.step.done(unit):
                self.step(unit)
        return data


def die_with_parent(parent: int) -> None:
    """Arm a thread that ends this process when its parent is gone, so that a killed driver leaves no writer."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run_tasks(deal: _Deal, tasks: int, ranks: Sequence[int]) -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from datatrove.executor.local import LocalPipelineExecutor

    logger.disable("datatrove")  # it prints a banner and a traceback with variable values for every task

    with tempfile.TemporaryDirectory(prefix="clozeline-") as logs:
        executor = LocalPipelineExecutor([deal], tasks=tasks, workers=1, logging_dir=logs, skip_completed=False)
        for rank in ranks:
            # `run()` starts a manager process even for one worker, and that outlives a killed driver.
            executor._run_for_rank(rank)


def _worker(deal: _Deal, tasks: int, ranks: Sequence[int], parent: int) -> None:
    die_with_parent(parent)
    _run_tasks(deal, tasks, ranks)


def run_units(step: UnitStep, units: Sequence[int], config: ExecutorConfig, tick: Callable[[], None]) -> None:
    """Run every unit that is not done; `tick` is called now and then, in this process.

    Args:
        step: what to do with a unit.
        units: unit numbers, dealt to tasks in this order.
        config: tasks and workers; one worker runs in this process.
        tick: progress callback.
    """
    if not units:
        return
    tasks = min(config.tasks, len(units))
    workers = min(config.workers or os.cpu_count() or 1, tasks)
    if workers == 1:
        _run_tasks(_Deal(_Ticking(step, tick), units), tasks, range(tasks))
        return
    deaths: Counter[int] = Counter()
    remaining = list(units)
    while remaining:
        _supervise(_Deal(step, remaining), min(tasks, len(remaining)), workers, tick)
        lost = [unit for unit in remaining if not step.done(unit)]
        deaths.update(unit for unit in lost if step.started(unit))
        for unit in lost:
            # Workers that die before they begin a unit would die for ever.
            if deaths[unit] >= _ATTEMPTS or not deaths:
                step.give_up(unit, "its worker process died (killed, or out of memory)")
        remaining = [unit for unit in lost if not step.done(unit)]


@dataclass(frozen=True)
class _Ticking:
    """A step that reports progress after each unit."""

    step: UnitStep
    tick: Callable[[], None]

    def __call__(self, unit: int) -> None:
        self.step(unit)
        self.tick()

    def done(self, unit: int) -> bool:
        return self.step.done(unit)

    def started(self, unit: int) -> bool:
        return self.step.started(unit)

    def give_up(self, unit: int, reason: str) -> None:
        self.step.give_up(unit, reason)


def _supervise(deal: _Deal, tasks: int, workers: int, tick: Callable[[], None]) -> None:
    context = multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = [
        context.Process(target=_worker, args=(deal, tasks, range(first, tasks, workers), os.getpid()), daemon=False)
        for first in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        while any(process.is_alive() for process in processes):
            processes[0].join(_POLL_S)
            tick()
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
            process.join()
