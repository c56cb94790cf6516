"""One run at a time in an output folder: a second one waits, and then finds the work done."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import StorageError

__all__ = ["one_at_a_time"]


@contextmanager
def one_at_a_time(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold `folder/.lock`; the system releases it whatever ends the process.

    Args:
        folder: output folder, made if need be.
        waiting: called once if another process holds the lock.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("w")
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written: {error.strerror or error}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
