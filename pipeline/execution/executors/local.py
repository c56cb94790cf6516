"""Run units in local processes, supervised so that no unit is lost and no process is left behind.

If a worker dies, only the unit that it was running is affected.
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from clozeline.configuration.config import config_class
from clozeline.errors import ClozelineError
from clozeline.memory import share_memory
from clozeline.pipeline import all_stages, is_of_extension, stage_module
from clozeline.pipeline.execution.executors import Assignment, Executor
from clozeline.process import child_context, die_with, guard_streams
from clozeline.repair import explain

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

_POLL_S: Final = 0.2


class Local(Executor):
    """Runs units in worker processes; a single worker runs in this process."""

    @config_class
    class Options:
        """None."""

    def run(
        self, assignment: Assignment, tick: Callable[..., None], report: Callable[[str], None]
    ) -> Mapping[int, str]:
        workers = min(self._config.workers or os.cpu_count() or 1, assignment.tasks)
        if workers == 1:
            assignment.run(range(assignment.tasks), tick)
        else:
            _supervise(assignment, workers, tick)
        return {}


def _worker(assignment: Assignment, ranks: Sequence[int], driver: int, workers: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver ends its workers
    die_with(driver)
    guard_streams()
    share_memory(workers)
    try:
        assignment.run(ranks)
    except (ClozelineError, OSError) as error:
        # not even a failure can be recorded: the driver meets the same error
        raise SystemExit(explain(error)[0]) from None


def _supervise(assignment: Assignment, workers: int, tick: Callable[..., None]) -> None:
    from multiprocessing.connection import wait

    # The fork server imports once what workers of all passes need, but no code of others, which may
    # end it; it ends with this process.
    context = child_context("forkserver")
    modules = [stage_module(stage) for stage in all_stages() if not is_of_extension(stage)]
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
        with _hold_interrupts():
            for process in processes:
                process.start()
        while alive := [process.sentinel for process in processes if process.is_alive()]:
            wait(alive, _POLL_S)
            tick(workers=len(alive))
    finally:
        # end the remaining processes and wait for them, whatever signal comes meanwhile
        with _hold_interrupts():
            for process in processes:
                if process.is_alive():
                    process.terminate()
            for process in processes:
                if process.pid is not None:  # None: an interrupt came before it was started
                    process.join()


@contextmanager
def _hold_interrupts() -> Iterator[None]:
    """Hold back Ctrl-C, and raise KeyboardInterrupt at the end of the block if it came.

    It is not raised if this process ignores the signal.
    """
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    # shell scripts let commands that they start with `&` ignore the signal
    if came and handler is not signal.SIG_IGN:
        raise KeyboardInterrupt
