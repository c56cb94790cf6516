"""Running units in processes: datatrove executors, supervised so that no unit is lost and no process remains.

Each worker process runs a datatrove executor over its tasks. When a worker dies, only the unit that it was running
is affected: that unit is tried once more, then recorded as failed. The other units run on.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, Protocol

import psutil
from loguru import logger

from pipeline.recipe import ExecutorConfig, stage_names

__all__ = ["UnitStep", "die_with", "run_units"]

_POLL_S: Final = 0.2
_ATTEMPTS: Final = 2
_LOGS: Final = "memory://datatrove"


class UnitStep(Protocol):
    """Work of a worker on one unit. Picklable."""

    def __call__(self, unit: int) -> None:
        """Run the unit; its errors are recorded, not raised."""

    def done(self, unit: int) -> bool:
        """Return whether the unit has a result in this run, of success or failure."""

    def started(self, unit: int) -> bool:
        """Return whether a worker began the unit and left no result."""

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


def die_with(process: int) -> None:
    """Arm a thread that ends this process when another one is gone, so that a killed driver leaves no writer."""

    def watch() -> None:
        try:
            psutil.Process(process).wait()
        finally:
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run_tasks(deal: _Deal, tasks: int, ranks: Sequence[int]) -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from datatrove.executor.local import LocalPipelineExecutor

    logger.disable("datatrove")  # it prints a banner and a traceback with variable values for every task

    # Its logs stay in memory: a killed worker would leave a folder of them.
    executor = LocalPipelineExecutor([deal], tasks=tasks, workers=1, logging_dir=_LOGS, skip_completed=False)
    for rank in ranks:
        # `run()` starts a manager process even for one worker, which outlives a killed driver.
        executor._run_for_rank(rank)


def _worker(deal: _Deal, tasks: int, ranks: Sequence[int], driver: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(driver)
    _run_tasks(deal, tasks, ranks)


def run_units(step: UnitStep, units: Sequence[int], config: ExecutorConfig, tick: Callable[[], None]) -> None:
    """Run every unit that is not done; `tick` is called repeatedly, in this process.

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
            # Workers that die before they begin a unit would die in every round.
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
    # The fork server imports once what every worker of every pass needs; it ends with this process.
    context = multiprocessing.get_context("forkserver")
    modules = [f"pipeline.{stage}.stage" for stage in stage_names()]
    context.set_forkserver_preload(["__main__", "datatrove.executor.local", *modules])
    processes: list[BaseProcess] = [
        context.Process(target=_worker, args=(deal, tasks, range(first, tasks, workers), os.getpid()), daemon=False)
        for first in range(workers)
    ]
    # Ctrl-C is the driver's: it stops the workers itself, without a traceback from each.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for process in processes:
            process.start()
    finally:
        signal.signal(signal.SIGINT, handler)
    try:
        while alive := [process.sentinel for process in processes if process.is_alive()]:
            wait(alive, _POLL_S)
            tick()
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
            process.join()
