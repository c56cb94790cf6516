"""Wishes to stop: signals, and a launcher that has gone.

A stop request never interrupts a step, but a wait for data. The flag of each rank travels in the one collective before
a step, so that all ranks stop after the same one, save it and end with exit code 75.
"""

from __future__ import annotations

import os
import signal
import time
from types import FrameType, TracebackType
from typing import Final

import psutil

__all__ = ["INTERRUPTED", "INTERRUPTED_MESSAGE", "Interrupted", "StopRequest", "leave_at_interrupt"]

INTERRUPTED: Final = 130
"""Exit code after an interrupt from the keyboard outside training."""
INTERRUPTED_MESSAGE: Final = "interrupted outside training: what was saved is kept, start the same command again"

_FORWARDED_S = 5.0
"""A launcher passes a signal on to ranks that may have had it already: a repetition this soon is the same wish."""


class Interrupted(BaseException):
    """A stop request ends a wait; no error, so that nothing on its way takes it for one."""


class StopRequest:
    """Whether somebody wants the run to stop; a context manager that puts the signal handlers back."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.interrupts = False
        """Whether a signal raises `Interrupted` in the main thread, now."""
        self._first = 0.0
        self._previous: dict[signal.Signals, object] = {}
        self._launcher = _launcher()

    def __enter__(self) -> StopRequest:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def wanted(self) -> bool:
        """True from the first signal on, or once the process that launched the ranks has gone."""
        if self.reason is None and self._launcher is not None and _launcher() != self._launcher:
            self.reason = "the launcher has gone"
        return self.reason is not None

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.reason is None:
            self.reason, self._first = signal.Signals(number).name, now
            if self.interrupts:
                self.interrupts = False
                raise Interrupted
        elif now - self._first > _FORWARDED_S:
            os._exit(128 + number)  # asked twice: leave at once, the last committed checkpoint is whole


def leave_at_interrupt() -> None:
    """Until a `StopRequest` takes over, end the process at SIGINT with one line, printed by one process of a machine.

    At once and without an exception: raised in the middle of an import or of a library's start-up, one could be
    swallowed, or come out as something else. Nothing has been trained that could be lost.
    """
    signal.signal(signal.SIGINT, _leave)


def _leave(_number: int, _frame: FrameType | None) -> None:
    if os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "0")) == "0":
        os.write(2, f"{INTERRUPTED_MESSAGE}\n".encode())
    os._exit(INTERRUPTED)


def _launcher() -> int | None:
    """Process id of the launcher's command, or None for a process that somebody started by hand.

    A rank's parent is the launcher's node process, which survives when its own parent, the command that the user
    sees, is terminated. That parent changes then, usually to 1.
    """
    if os.environ.get("CROSS_RANK") is None:
        return None
    try:
        return psutil.Process(os.getppid()).ppid()
    except psutil.Error:
        return -1
