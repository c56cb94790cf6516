"""Run units in local processes, supervised so that no unit is lost and no process remains.

When a worker dies, only the unit that it was running is affected.
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from clozeline.configuration.config import config_class
from clozeline.errors import ClozelineError
from clozeline.memory import share_memory
from clozeline.pipeline import all_stages, stage_module
from clozeline.pipeline.execution.executors import Assignment, Executor, run_tasks
from clozeline.pipeline.recipe import ExecutorConfig
from clozeline.process import child_context, die_with, guard_streams

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

_POLL_S: Final = 0.2


class Local(Executor):
    """Worker processes; one worker runs in this process."""

    final = False

    @config_class
    class Options:
        """None."""

    def __init__(self, options: Options, config: ExecutorConfig) -> None:
        self._config = config

    def run(
        self, assignment: Assignment, tick: Callable[[], None], report: Callable[[str], None]
    ) -> Mapping[int, str]:
        workers = min(self._config.workers or os.cpu_count() or 1, assignment.tasks)
        if workers == 1:
            run_tasks(replace(assignment, tick=tick), range(assignment.tasks))
        else:
            _supervise(assignment, workers, tick)
        return {}


def _worker(assignment: Assignment, ranks: Sequence[int], driver: int, workers: int) -> None:
    # Inherited from the driver too, but not where a fork server of another user of
    # `multiprocessing` was there before.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    die_with(driver)
    guard_streams()
    share_memory(workers)
    try:
        run_tasks(assignment, ranks)
    except (
        ClozelineError,
        OSError,
    ) as error:  # not even a failure can be recorded: the driver meets the same error
        raise SystemExit(getattr(error, "exit_code", 74)) from None


def _supervise(assignment: Assignment, workers: int, tick: Callable[[], None]) -> None:
    from multiprocessing.connection import wait

    # The fork server imports once what every worker of every pass needs; it ends with this process.
    context = child_context("forkserver")
    modules = [stage_module(stage) for stage in all_stages()]
    context.set_forkserver_preload(["__main__", *modules])
    processes: list[BaseProcess] = [
        context.Process(
            target=_worker,
            args=(assignment, range(first, assignment.tasks, workers), os.getpid(), workers),
            daemon=False,
        )
        for first in range(workers)
    ]
    try:
        with _interrupts_pending():
            for process in processes:
                process.start()
        while alive := [process.sentinel for process in processes if process.is_alive()]:
            wait(alive, _POLL_S)
            tick()
    finally:  # end the processes that still run, and wait for them, whatever signal comes meanwhile
        with _interrupts_pending():
            for process in processes:
                if process.is_alive():
                    process.terminate()
            for process in processes:
                if process.pid is not None:  # an interrupt can come before it is started
                    process.join()


@contextmanager
def _interrupts_pending() -> Iterator[None]:
    """Keep Ctrl-C pending; raise KeyboardInterrupt at the end of the block if it came and is not ignored.

    Processes that are started meanwhile have it blocked: it is the driver's, which ends them
    without a traceback from each. A mask alone would not do for this process, since another of its
    threads may receive the signal.
    """
    from multiprocessing import resource_tracker

    came: list[int] = []
    resource_tracker.ensure_running()  # it would unblock the signal when the first worker starts it
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if (
        came and handler is not signal.SIG_IGN
    ):  # a shell's script lets what it starts with `&` ignore it
        raise KeyboardInterrupt
