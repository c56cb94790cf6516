"""Signals that ask a process to stop, and how it catches them."""

import os
import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Final

WARNINGS: Final = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
"""Warnings before a time limit: Slurm sends what `--signal` names, often SIGUSR1, and Grid Engine SIGUSR1, SIGUSR2 or
SIGXCPU. The default action of each ends the process at once."""
STOPS: Final = (signal.SIGTERM, signal.SIGHUP, *WARNINGS)
"""Requests to stop: SIGHUP comes when a terminal is closed or a connection is lost."""


def catch(numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    """Handle signals in this process; return the handlers of before.

    SIGHUP and SIGINT stay ignored where they are: by `nohup`, and by a script for what it starts with `&`.
    """
    may_be_ignored = (signal.SIGHUP, signal.SIGINT)
    caught = [n for n in numbers if n not in may_be_ignored or signal.getsignal(n) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in caught}


def die_with(process: int) -> None:
    """Start a thread that ends this process when its driver is gone, so that a killed driver leaves no writer."""

    def watch() -> None:
        import psutil  # the options of executors are listed without it

        try:
            psutil.Process(process).wait()
        finally:
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
