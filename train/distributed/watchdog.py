"""End a process that makes no progress."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Callable
from typing import Final

from clozeline.errors import WATCHDOG

RECORDER: Final = "TORCH_FR_DUMP_TEMP_FILE"
"""Variable with the path, without the rank, to which NCCL writes the last collectives at a
timeout."""


class Watchdog:
    """Exits with code 70 and the stacks of all threads if `beat` is not called for `seconds`.

    0 disables it. A hang in a collective or a read cannot be interrupted otherwise.
    """

    def __init__(self, seconds: float, rank: int = 0, noting: Callable[[], object] = int) -> None:
        self._seconds = seconds
        self._rank = rank
        self._noting = noting
        self._beats = threading.Condition()
        self._count = 0
        self._closed = False
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        if self._seconds > 0:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._beats:
            self._closed = True
            self._beats.notify()
        if self._thread.is_alive():
            self._thread.join()

    def beat(self) -> None:
        """Report progress, after each step, evaluated batch and save, also to `noting`."""
        self._noting()
        with self._beats:
            self._count += 1
            self._beats.notify()

    def _watch(self) -> None:
        with self._beats:
            while not self._closed:
                seen = self._count
                moved = self._beats.wait(self._seconds)
                if not moved and not self._closed and self._count == seen:
                    passed = (
                        f"no progress for {self._seconds:g} s (watchdog_s); every thread's stack "
                        "follows"
                    )
                    if recorder := os.environ.get(RECORDER):
                        passed = (
                            f"{passed}; if a collective hangs, NCCL's last ones are in "
                            f"{recorder}{self._rank}"
                        )
                    print(f"error: rank {self._rank}: {passed}", file=sys.stderr, flush=True)  # noqa: T201
                    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
                    os._exit(WATCHDOG)
