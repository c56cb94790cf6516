"""Streams and signals of a command's process, and every process that it starts.

Messages that cannot be written are lost, and the work goes on: the terminal may be closed, the disk
of a log full, the reader of a pipe gone, or no descriptor open. Only a command whose result is what
it prints ends then.

A child process imports no module from the folder in which the user works: Python would look there
first after `-c` and `-m`, so that a file `json.py` among somebody's data would run. Every child is
started here, with limits of its memory and time.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal

from clozeline.errors import StorageError
from clozeline.memory import find_memory

WARNINGS: Final = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
"""Warnings before a time limit: Slurm sends what `--signal` names, often SIGUSR1, and Grid Engine
SIGUSR1, SIGUSR2 or SIGXCPU. The default action of each ends the process at once."""
STOPS: Final = (signal.SIGTERM, signal.SIGHUP, *WARNINGS)
"""Requests to stop: SIGHUP comes when a terminal is closed or a connection is lost."""
READER_GONE: Final = 141
"""Exit code of a command whose reader, such as `head`, left before the end: a shell's code for a
death by SIGPIPE."""

PROGRAMS: Final = Path(sys.executable).parent
"""Folder with the programs that are installed next to this Python."""
SAFE_PATH: Final = "PYTHONSAFEPATH"
"""Variable by which Python leaves the current folder, and that of its script, out of the path of
modules."""


@dataclass(frozen=True)
class Limits:
    """What a child may use before the system refuses it memory, or ends it.

    They are far above what any sound file needs: they keep a crafted one from taking the machine.
    """

    memory_bytes: int | None = None
    """memory that it may write to, in bytes; None: half of that of the machine"""
    cpu_s: int = 900
    """CPU seconds; the slowest published tokenizer takes some 60 to convert"""


class ReaderGone(Exception):
    """Nobody reads the rest of a result."""


class _Stream:
    """A text stream that loses what cannot be written, unless it `is_result`; after the first error it is none."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.is_result = False

    def __getattr__(self, name: str) -> object:
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
            raise StorageError(
                f"standard output: {error.strerror}; the result is incomplete"
            ) from error


def guard_streams(*, result: bool = False) -> None:
    """Let this process lose messages that cannot be written; a `result` on standard output must be written."""
    # a descriptor that the caller closed: the next file that is opened would receive what libraries
    # and children print
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


def catch(
    numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> dict[int, Any]:
    """Handle signals in this process; return the handlers of before.

    SIGHUP and SIGINT stay ignored where they are: by `nohup`, and by a script for what it starts
    with `&`.
    """
    may_be_ignored = (signal.SIGHUP, signal.SIGINT)
    caught = [
        n for n in numbers if n not in may_be_ignored or signal.getsignal(n) is not signal.SIG_IGN
    ]
    return {number: signal.signal(number, handler) for number in caught}


def python_command(*words: str) -> list[str]:
    """Return a command line of this Python that looks for modules only where they are installed."""
    return [sys.executable, "-P", *words]


def start_child(
    command: Sequence[str],
    *,
    limits: Limits | None = None,
    env: dict[str, str] | None = None,
    **settings: Any,
) -> subprocess.Popen[Any]:
    """Start a program whose Python, and that of its children, imports nothing from the current folder.

    Args:
        command: the program and its words, for this Python those of `python_command`.
        limits: what it may use; None: no less than this process, as for a training or a command of
            the cluster.
        env: its environment; None: that of this process.
        settings: of `subprocess.Popen`.
    """
    variables = {**(os.environ if env is None else env), SAFE_PATH: "1"}
    child = subprocess.Popen(command, env=variables, **settings)
    if limits is not None and hasattr(
        resource, "prlimit"
    ):  # Linux; elsewhere the child sets what limits it has
        memory = find_memory() // 2 if limits.memory_bytes is None else limits.memory_bytes
        bounds = {
            resource.RLIMIT_DATA: memory,
            resource.RLIMIT_CPU: limits.cpu_s,
            resource.RLIMIT_CORE: 0,
        }
        with suppress(ProcessLookupError):  # it has ended already
            for kind, bound in bounds.items():
                _lower_limit(child.pid, kind, bound)
    return child


def _lower_limit(process: int, kind: int, bound: int) -> None:
    """Lower a limit of a process; one that is lower already stays."""
    now, most = resource.prlimit(process, kind)
    if now == resource.RLIM_INFINITY or bound < now:
        resource.prlimit(process, kind, (bound, most))


def run_child(
    command: Sequence[str],
    *,
    limits: Limits | None = None,
    input: str | bytes | None = None,  # noqa: A002 (the name in `subprocess`)
    timeout_s: float | None = None,
    **settings: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a program to its end by `start_child`, and return its exit code and what it wrote.

    Args:
        command: as for `start_child`.
        limits: as for `start_child`.
        input: what it reads from its standard input; None: the input of this process.
        timeout_s: seconds after which it is killed, and TimeoutExpired raised.
        settings: of `subprocess.Popen`; default: both streams are captured.
    """
    pipe = subprocess.PIPE
    streams = {
        "stdout": pipe,
        "stderr": pipe,
        **({} if input is None else {"stdin": pipe}),
        **settings,
    }
    with start_child(command, limits=limits, **streams) as child:
        try:
            output, errors = child.communicate(input, timeout_s)
        except BaseException:  # also a stop by a signal
            child.kill()
            raise
    return subprocess.CompletedProcess(command, child.returncode, output, errors)


def shield_children() -> None:
    """Let what libraries start, such as trackers of `multiprocessing`, import nothing from the current folder."""
    os.environ[SAFE_PATH] = "1"


def child_context(method: Literal["spawn", "forkserver"]) -> Any:
    """Return the context of `multiprocessing` whose processes import nothing from the current folder."""
    import multiprocessing

    shield_children()
    return multiprocessing.get_context(method)


def die_with(process: int) -> None:
    """Start a thread that ends this process when its driver is gone, so that a killed driver leaves no writer."""

    def watch() -> None:
        import psutil  # the options of executors are listed without it

        try:
            psutil.Process(process).wait()
        finally:
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
