"""Set up streams and signals of a command's process, and start child processes.

Messages that cannot be written are lost, and the work continues: the terminal may be closed, the
disk of a log full, the reader of a pipe gone, or no descriptor open. Only a command whose result is
its output stops then.

A child process imports no module from the current folder. With `-c` and `-m`, Python would search
that folder first, so a file `json.py` among somebody's data would run. Every child is started here,
with limits of memory and time.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal, NoReturn

from clozeline.errors import StorageError
from clozeline.memory import find_memory

WARNINGS: Final = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
"""Warnings before a time limit: Slurm sends the signal of `--signal`, often SIGUSR1, and Grid
Engine SIGUSR1, SIGUSR2 or SIGXCPU. The default action of each ends the process at once."""
STOPS: Final = (signal.SIGTERM, signal.SIGHUP, *WARNINGS)
"""Requests to stop; SIGHUP comes when a terminal is closed or a connection is lost."""
READER_GONE: Final = 141
"""Exit code of a command whose reader, such as `head`, left early: the shell's code for SIGPIPE."""

PROGRAMS: Final = Path(sys.executable).parent
"""Folder with the programs that are installed next to this Python."""
SAFE_PATH: Final = "PYTHONSAFEPATH"
"""Variable that makes Python omit the current folder, and the folder of its script, from the module
path."""


@dataclass(frozen=True)
class ChildLimits:
    """Limits of memory and CPU time of a child process.

    They are far above the needs of valid files, and protect the machine from crafted ones.
    """

    memory_bytes: int | None = None
    """writable memory in bytes; None: half of the memory of the machine"""
    cpu_s: int = 900
    """CPU seconds; the slowest published tokenizer takes about 60 to convert"""


class ReaderGone(Exception):
    """The reader of the result has left."""


class _GuardedStream:
    """A text stream that drops text which cannot be written, until its output `is_result`."""

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
    """Drop messages that cannot be written; a `result` on standard output must be written."""
    # if the caller closed a descriptor, the next opened file would receive the output of libraries
    # and children
    while (free := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(free, True)
    os.close(free)

    for name, is_result in (("stdout", result), ("stderr", False)):
        stream = getattr(sys, name)
        if stream is None:
            stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        elif stream is getattr(sys, f"__{name}__"):
            if stream.errors == "strict":  # a character must not end the work
                stream.reconfigure(errors="backslashreplace")
            stream = _GuardedStream(stream)
        if isinstance(stream, _GuardedStream):
            stream.is_result = is_result
        setattr(sys, name, stream)


def catch(
    numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> dict[int, Any]:
    """Handle signals in this process; return the previous handlers.

    Ignored SIGHUP and SIGINT stay ignored: `nohup` ignores the first, and scripts ignore both for
    commands that they start with `&`.
    """
    may_be_ignored = (signal.SIGHUP, signal.SIGINT)
    caught = [
        n for n in numbers if n not in may_be_ignored or signal.getsignal(n) is not signal.SIG_IGN
    ]
    return {number: signal.signal(number, handler) for number in caught}


def python_command(*words: str) -> list[str]:
    """Return a command line of this Python that imports only installed modules."""
    return [sys.executable, "-P", *words]


def start_child(
    command: Sequence[str],
    *,
    limits: ChildLimits | None = None,
    env: dict[str, str] | None = None,
    **settings: Any,
) -> subprocess.Popen[Any]:
    """Start a program; Python in it and its children imports nothing from the current folder.

    Args:
        command: the program and its arguments; for this Python, use `python_command`.
        limits: limits of the child; None: no limits, as for a training or a command of the cluster.
        env: its environment; None: that of this process.
        settings: of `subprocess.Popen`.
    """
    variables = {**(os.environ if env is None else env), SAFE_PATH: "1"}
    child = subprocess.Popen(command, env=variables, **settings)

    if limits is not None and hasattr(resource, "prlimit"):  # only on Linux
        memory = find_memory() // 2 if limits.memory_bytes is None else limits.memory_bytes
        bounds = {
            resource.RLIMIT_DATA: memory,
            resource.RLIMIT_CPU: limits.cpu_s,
            resource.RLIMIT_CORE: 0,
        }
        with suppress(ProcessLookupError):  # it has ended already
            for limit, bound in bounds.items():
                _lower_limit(child.pid, limit, bound)

    return child


def _lower_limit(process: int, limit: int, bound: int) -> None:
    """Lower a limit of a process; a lower limit stays."""
    soft, hard = resource.prlimit(process, limit)
    if soft == resource.RLIM_INFINITY or bound < soft:
        resource.prlimit(process, limit, (bound, hard))


def run_child(
    command: Sequence[str],
    *,
    limits: ChildLimits | None = None,
    input: str | bytes | None = None,  # noqa: A002 (the name in `subprocess`)
    timeout_s: float | None = None,
    **settings: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a program by `start_child`, and return its exit code and output.

    Args:
        command: as for `start_child`.
        limits: as for `start_child`.
        input: its standard input; None: the standard input of this process.
        timeout_s: seconds after which it is killed and TimeoutExpired is raised.
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
        except BaseException:  # also after a signal
            child.kill()
            raise

    return subprocess.CompletedProcess(command, child.returncode, output, errors)


@contextmanager
def repeating(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Call `act` in a thread every so many seconds during the block."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(seconds):
            act()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()

    try:
        yield
    finally:
        ended.set()
        thread.join()


def restart_program(folder: Path) -> NoReturn:
    """Replace this process by a new one of the same command, started in a folder."""
    os.chdir(folder)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def shield_children() -> None:
    """Let processes started by libraries import nothing from the current folder."""
    os.environ[SAFE_PATH] = "1"


def child_context(method: Literal["spawn", "forkserver"]) -> Any:
    """Return a `multiprocessing` context whose processes import nothing from the current folder."""
    import multiprocessing

    shield_children()
    return multiprocessing.get_context(method)


def die_with(process: int) -> None:
    """Start a thread that ends this process when its driver ends, so no writer is left behind."""

    def watch() -> None:
        import psutil  # imported here, because listing the options of executors does not need it

        try:
            psutil.Process(process).wait()
        finally:
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
