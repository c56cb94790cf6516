"""Requests to stop: signals, and the end of the launcher.

A request interrupts a wait for data, never a step. Each rank sends its flag in the collective before a step. All ranks
therefore stop after the same step, save the state and exit with code 75.
"""

from __future__ import annotations

import os
import signal
import time
from types import FrameType, TracebackType
from typing import Final

import psutil

from clozeline.stop_signals import WARNINGS

INTERRUPTED: Final = 130
"""Exit code after an interrupt from the keyboard outside training."""
_STOPPED: Final = 75
"""`train.errors.STOPPED`, which is imported too late for this file."""
INTERRUPTED_MESSAGE: Final = "interrupted outside training: what was saved is kept, start the same command again"

_FORWARDED_S = 5.0
"""A launcher forwards signals to ranks that may have received them: a signal repeated this soon is the same request."""


class Interrupted(BaseException):
    """The end of a wait by a stop request; a BaseException, so that no handler of errors catches it."""


class StopRequest:
    """The request to stop the run, if there is one; a context manager that restores the signal handlers."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.interrupts = False
        """True while a signal raises `Interrupted` in the main thread, now."""
        self._first: float | None = None
        """Time of the first SIGTERM or SIGINT."""
        self._previous: dict[signal.Signals, object] = {}
        self._launcher = _launcher()

    def __enter__(self) -> StopRequest:
        for number in (signal.SIGTERM, signal.SIGINT, *WARNINGS):
            self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def is_requested(self) -> bool:
        """Return True after the first signal, or after the process that launched the ranks has ended."""
        if self.reason is None and self._launcher is not None and _launcher() != self._launcher:
            self.reason = "the launcher has ended"
        return self.reason is not None

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        now, told = time.monotonic(), self.reason is not None
        if number not in WARNINGS:  # which come again, SIGXCPU every second, and before the SIGTERM of the same end
            if self._first is not None and now - self._first > _FORWARDED_S:
                os._exit(128 + number)  # the second request: exit at once, the last committed checkpoint is whole
            self._first = self._first or now
        if not told:
            self.reason = signal.Signals(number).name
            if self.interrupts:
                self.interrupts = False
                raise Interrupted


def leave_at_interrupt() -> None:
    """End the process with one line, until a `StopRequest` takes over, at SIGINT or a warning of the scheduler.

    The exit code is 130 or 75. One process of a machine prints the line.

    The process exits without an exception, which an import or the start of a library could swallow or replace. Nothing
    has been trained that could be lost.
    """
    for number in (signal.SIGINT, *WARNINGS):
        signal.signal(number, _leave)


def _leave(number: int, _frame: FrameType | None) -> None:
    if os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "0")) == "0":
        os.write(2, f"{INTERRUPTED_MESSAGE}\n".encode())
    os._exit(INTERRUPTED if number == signal.SIGINT else _STOPPED)


def _launcher() -> int | None:
    """Return the process id of the launcher's command, or None for a process started by hand.

    A rank's parent is the launcher's node process. The parent of that one is the command that the user sees. When the
    command ends, the node process survives and gets another parent, usually process 1.
    """
    if os.environ.get("CROSS_RANK") is None:
        return None
    try:
        return psutil.Process(os.getppid()).ppid()
    except psutil.Error:
        return -1
