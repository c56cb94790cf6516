"""Streams and signals of a command's process: messages that cannot be written are lost, and the work goes on.

The terminal may be closed, the disk of a log full, the reader of a pipe gone, or no descriptor open. Only a command
whose result is what it prints ends then.
"""

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from clozeline.errors import StorageError

WARNINGS: Final = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
"""Warnings before a time limit: Slurm sends what `--signal` names, often SIGUSR1, and Grid Engine SIGUSR1, SIGUSR2 or
SIGXCPU. The default action of each ends the process at once."""
STOPS: Final = (signal.SIGTERM, signal.SIGHUP, *WARNINGS)
"""Requests to stop: SIGHUP comes when a terminal is closed or a connection is lost."""
READER_GONE: Final = 141
"""Exit code of a command whose reader, such as `head`, left before the end: a shell's code for a death by SIGPIPE."""


class ReaderGone(Exception):
    """Nobody reads the rest of a result."""


class _Stream:
    """A text stream that loses what cannot be written, unless it `is_result`; after the first error it is none."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.is_result = stream, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self._lose(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        if self.is_result:
            self.is_result = False
            if error.errno == errno.EPIPE:
                raise ReaderGone from error
            raise StorageError(f"standard output: {error.strerror}; the result is incomplete") from error


def guard_streams(*, result: bool = False) -> None:
    """Let this process lose messages that cannot be written; a `result` on standard output must be written."""
    # a descriptor that the caller closed: the next file that is opened would receive what libraries and children print
    while (free := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(free, True)
    os.close(free)
    for name, is_result in (("stdout", result), ("stderr", False)):
        stream = getattr(sys, name)
        if stream is None:
            stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        elif stream is getattr(sys, f"__{name}__"):
            if stream.errors == "strict":  # no character is worth the end of the work
                stream.reconfigure(errors="backslashreplace")
            stream = _Stream(stream)
        if isinstance(stream, _Stream):
            stream.is_result = is_result
        setattr(sys, name, stream)


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
