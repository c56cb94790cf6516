"""Handle stop requests: signals, and the end of the launcher.

A request interrupts a wait for data, never a step. Ranks exchange the flag in the collective before
a step: all stop after the same step, save and exit with code 75.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from types import FrameType
from typing import Any, Final

import psutil

from clozeline.process import STOPS, WARNINGS, catch

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C outside training."""
_STOPPED_EXIT_CODE: Final = 75
"""`clozeline.errors.STOPPED`, without its import."""
INTERRUPTED_MESSAGE: Final = (
    "interrupted outside training: checkpoints are unchanged, start the same command again"
)

_FORWARDED_S = 5.0
"""Launchers forward signals that ranks may have received already: a signal within this time is the
same request."""


class Interrupted(BaseException):
    """A stop request during a wait; a BaseException, so that no error handler catches it."""


class StopRequest:
    """Receives stop requests; as a context manager, it restores the signal handlers."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.interrupts = False
        """While true, a signal raises `Interrupted` in the main thread."""
        self._first: float | None = None
        """Time of the first signal that is not a warning."""
        self._previous: dict[int, Any] = {}
        self._launcher = _launcher()

    def __enter__(self) -> StopRequest:
        self._previous = catch((*STOPS, signal.SIGINT), self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def is_set(self) -> bool:
        """Return whether a signal has come, or the launcher has ended."""
        if self.reason is None and self._launcher is not None and _launcher() != self._launcher:
            self.reason = "the launcher has ended"
        return self.reason is not None

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        known = self.reason is not None
        if number not in WARNINGS:  # warnings repeat, SIGXCPU every second, and precede a SIGTERM
            if self._first is not None and now - self._first > _FORWARDED_S:
                os._exit(128 + number)  # second request: exit at once, the last checkpoint is valid
            self._first = self._first or now
        if not known:
            self.reason = signal.Signals(number).name
            if self.interrupts:
                self.interrupts = False
                raise Interrupted


def leave_at_interrupt() -> None:
    """Exit at SIGINT or a scheduler's warning, until a `StopRequest` takes over.

    The exit code is 130 or 75, with one line. No exception is raised, which an import could
    swallow; there is nothing to save yet.
    """
    catch((signal.SIGINT, *WARNINGS), _leave)


def _leave(number: int, _frame: FrameType | None) -> None:
    if os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "0")) == "0":
        with suppress(OSError):  # the terminal may be closed
            os.write(2, f"{INTERRUPTED_MESSAGE}\n".encode())
    os._exit(INTERRUPTED if number == signal.SIGINT else _STOPPED_EXIT_CODE)


def _launcher() -> int | None:
    # a rank's grandparent is the launcher command; when it ends, the process in between gets
    # another parent
    if os.environ.get("CROSS_RANK") is None:
        return None
    try:
        return psutil.Process(os.getppid()).ppid()
    except psutil.Error:
        return -1
