"""Allow one run at a time per output, a pipeline or a training, also on shared file systems.

On one machine the lock of the system decides. Some shared file systems have no such lock, or keep
it on each machine. So a run also creates the file `.holder`, which is atomic on all of them, and
renews its modification time. Another run takes over once that time has not changed for a while by
its own clock. Clocks of two machines are never compared.
"""

import errno
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from stat import S_ISREG
from typing import IO, Any, Final

from clozeline.errors import ConfigurationError
from clozeline.files import (
    HOLDER,
    HOST,
    LOCK,
    has_ended,
    identify_process,
    open_unlinked,
    read_json,
    writing,
)
from clozeline.process import repeating

_RENEWAL_INTERVAL_S: Final = 20.0
# Seconds without a renewal after which a process on another machine counts as dead.
_DEAD_S: Final = 180.0
_POLL_S: Final = 1.0
_NO_LOCK_ERRORS: Final = (errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK)


class Holder:
    """A file that a process creates, and renews as long as it runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process: dict[str, Any] | None = None
        """the process, once `has_died` has read it"""
        self.seen_at = 0.0
        """when `has_died` last saw a renewal, on the monotonic clock"""
        self._renewed = 0
        self._is_renewed = False

    def create(self) -> bool:
        """Create the file for this process; return False if it exists."""
        with suppress(FileExistsError), self.path.open("x", encoding="utf-8") as file:
            try:
                file.write(json.dumps(identify_process()))
                file.flush()
            except OSError:  # from an empty file, nobody could tell that its process has ended
                self.path.unlink()
                raise
            return True
        return False

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew the file during the block, then remove it."""

        def renew() -> None:
            with suppress(OSError):
                os.utime(self.path, follow_symlinks=False)

        try:
            with repeating(_RENEWAL_INTERVAL_S, renew):
                yield
        finally:
            self.path.unlink(missing_ok=True)

    def has_died(self) -> bool:
        """Return whether the process has ended without removing the file.

        A process of another machine counts as dead if this object, which must be asked repeatedly,
        sees no renewal for a while.

        Raises:
            ConfigurationError: it is a file of somebody else.
            FileNotFoundError: there is no such file.
        """
        status = self.path.lstat()
        renewed = status.st_mtime_ns
        if renewed != self._renewed:
            self._is_renewed = self._renewed > 0
            self._renewed = renewed
            self.seen_at = time.monotonic()
            self.process = None
        if self.process is None:
            self.process = read_json(self.path)
            # only a crash of the machine leaves an empty file; one that is removed meanwhile, or
            # not visible yet, is not read either
            if (
                not self.process
                and (status.st_size or not S_ISREG(status.st_mode))
                and self.path.exists()
            ):
                raise ConfigurationError(
                    f"{self.path}: expected the file of a run that writes this output, got another "
                    "one: move it away, or choose another folder with output=DIR"
                )
        return has_ended(self.process or {}) or time.monotonic() - self.seen_at > _DEAD_S

    def say_waiting(self) -> None:
        """Say that a process of another machine may still run."""
        sys.stderr.write(
            f"{self.path}: waiting {_DEAD_S:.0f} s for a sign of the process of another machine "
            "that wrote here\n"
        )

    def refuse(self, *, surely: bool) -> None:
        """Raise ConfigurationError if the process is known to run; `surely`: it holds the lock."""
        process = self.process or read_json(self.path) or {}
        host = str(process.get("host"))
        if surely or self._is_renewed or host == HOST:
            raise ConfigurationError(
                f"output: {self.path.parent} is in use by process {process.get('pid')} on "
                f"{host.partition(' ')[0]}, which still runs: stop it, or choose another output"
            )


@contextmanager
def hold_output(folder: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Create an output folder if it is missing, and hold it during the block.

    `waiting` is called once if another process holds it, whose end is then waited for. Without it,
    a process that still runs is an error.

    Raises:
        ConfigurationError: another process holds it, or its files have the names of ours.
        StorageError: the folder cannot be written.
    """
    holder = Holder(folder / HOLDER)

    with ExitStack() as stack:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(open_unlinked(folder / LOCK, "ab+"))
            file.seek(0)
            if (content := file.read()) and not content.isdigit():  # an early version's process id
                raise ConfigurationError(
                    f"output: {folder / LOCK} is not the lock of a run: move it away, or choose "
                    "another output"
                )
            _hold(file, holder, cache(waiting or holder.say_waiting), refuses=waiting is None)
        stack.enter_context(holder.renewed())
        yield


def lock(file: IO[Any]) -> bool:
    """Lock an open file for this process; return False if another process holds the lock.

    On a file system without locks, return True.

    The system releases the lock when the file is closed or the process ends.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCK_ERRORS:
            raise
    return True


def _hold(file: IO[bytes], holder: Holder, waiting: Callable[[], None], *, refuses: bool) -> None:
    """Lock the file, then create the holder file, each after its current holder has ended."""
    if not lock(file):
        if refuses:
            holder.refuse(surely=True)
        waiting()
        fcntl.flock(file, fcntl.LOCK_EX)

    while not holder.create():
        with suppress(FileNotFoundError):
            if holder.has_died():
                holder.path.unlink()
                continue
            if refuses:
                holder.refuse(surely=False)
            waiting()
            time.sleep(_POLL_S)
