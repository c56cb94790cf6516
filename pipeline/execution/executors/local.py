"""Run units in local processes, supervised so that no unit is lost and no process is left behind.

If a worker dies, only the unit that it was running is affected.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
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
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

_POLL_S: Final = 0.2
_SMALL_PASS_BYTES: Final = 4 << 20
"""input bytes below which starting processes takes longer than they save: a second or two"""


class Local(Executor):
    """Runs units in worker processes, each of which takes the next unit when it is free.

    A single worker runs in this process, and so does a small pass if `workers` is not set.
    """

    @config_class
    class Options:
        """None."""

    _has_workers = False
    """whether a round had workers: what one of them died of must not end this process"""

    def describe(self) -> str:
        return f"workers: {self._workers(sys.maxsize)}"

    def run(
        self, assignment: Assignment, tick: Callable[..., None], report: Callable[[str], None]
    ) -> Mapping[int, str]:
        is_small = assignment.input_bytes < _SMALL_PASS_BYTES and self._config.workers is None
        workers = 1 if is_small else self._workers(len(assignment.units))
        if workers == 1 and not self._has_workers:
            assignment.run(assignment.units, tick)
        else:
            self._has_workers = True
            _supervise(assignment, workers, tick)
        return {}


def _worker(
    assignment: Assignment, driver: int, workers: int, requests: Connection[None, str | None]
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver ends its workers
    die_with(driver)
    guard_streams()
    share_memory(workers)
    try:
        assignment.run(_next_units(requests))
    except (ClozelineError, OSError) as error:
        # not even a failure can be recorded: the driver meets the same error
        raise SystemExit(explain(error)[0]) from None


def _next_units(requests: Connection[None, str | None]) -> Iterator[str]:
    """Yield the units that the driver gives to this worker, one after another."""
    while True:
        requests.send(None)
        if (unit := requests.recv()) is None:
            return
        yield unit


def _supervise(assignment: Assignment, workers: int, tick: Callable[..., None]) -> None:
    from multiprocessing.connection import wait

    # The fork server imports once what workers of all passes need, but no code of others, which may
    # end it; it ends with this process.
    context = child_context("forkserver")
    modules = [stage_module(stage) for stage in all_stages() if not is_of_extension(stage)]
    context.set_forkserver_preload(["__main__", *modules])
    pipes = [context.Pipe() for _ in range(workers)]
    processes: list[BaseProcess] = [
        context.Process(
            target=_worker, args=(assignment, os.getpid(), workers, requests), daemon=False
        )
        for _, requests in pipes
    ]
    waiting = iter(assignment.units)
    connections = [connection for connection, _ in pipes]

    try:
        with _hold_interrupts():
            for process, (_, requests) in zip(processes, pipes, strict=True):
                process.start()
                requests.close()
        while alive := [process.sentinel for process in processes if process.is_alive()]:
            ready = wait([*alive, *connections], _POLL_S)
            for connection in [each for each in connections if each in ready]:
                try:
                    connection.recv()
                    connection.send(next(waiting, None))
                except (EOFError, OSError):  # this worker has ended
                    connections.remove(connection)
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
        for connection, _ in pipes:
            connection.close()


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
