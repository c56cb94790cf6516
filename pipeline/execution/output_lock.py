"""Allow one run at a time per output, also on shared file systems.

On one machine the system's lock decides, and is released by the end of the process. Some shared file systems have no
such lock, or keep it on each machine. So a run also writes `.holder`, whose creation is atomic on them all, and renews
its time of change. A run that waits takes over once that time has stood still, by its own clock: clocks of two machines
are never compared.
"""

import errno
import fcntl
import functools
import json
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

from clozeline.errors import StorageError
from clozeline.files import lock, open_unlinked, parse_json, process_start, still_runs
from clozeline.repair import cannot_write

_RENEWED_S: Final = 20.0
# Seconds without a renewal after which the holder on another machine counts as gone.
_GONE_S: Final = 180.0
_POLL_S: Final = 1.0
_NO_LOCKS: Final = (errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK)


@contextmanager
def one_at_a_time(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold an output folder, which is made if need be; `waiting` is called once if another process holds it."""
    waiting = functools.cache(waiting)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open_unlinked(folder / ".lock", "w")
    except OSError as error:
        raise StorageError(cannot_write(folder, error)) from error
    with file:
        try:
            if not lock(file):
                waiting()
                fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        holder = folder / ".holder"
        _take(holder, waiting)
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(_RENEWED_S):
                with suppress(OSError):
                    os.utime(holder)

        renewal = threading.Thread(target=renew, daemon=True)
        renewal.start()
        try:
            yield
        finally:
            ended.set()
            renewal.join()
            holder.unlink(missing_ok=True)


def _take(holder: Path, waiting: Callable[[], None]) -> None:
    """Create the holder's file, after its present holder has ended."""
    mine = {"host": platform.node(), "pid": os.getpid(), "start": process_start(os.getpid())}
    seen: tuple[str, int] | None = None
    since = time.monotonic()
    while True:
        if _create_file(holder, json.dumps(mine)):
            return
        present = _look(holder)
        if present != seen:
            seen, since = present, time.monotonic()
        if seen is not None and (_is_dead_process(seen[0]) or time.monotonic() - since > _GONE_S):
            if _look(holder) == seen:
                holder.unlink(missing_ok=True)
            continue
        waiting()
        time.sleep(_POLL_S)


def _create_file(holder: Path, text: str) -> bool:
    """Create the file, unless it exists."""
    try:
        file = holder.open("x", encoding="utf-8")
    except FileExistsError:
        return False
    except OSError as error:
        raise StorageError(cannot_write(holder, error)) from error
    try:
        with file:
            file.write(text)
    except OSError as error:
        holder.unlink(missing_ok=True)
        raise StorageError(cannot_write(holder, error)) from error
    return True


def _look(holder: Path) -> tuple[str, int] | None:
    """Return the content and the time of change; None where the file is gone."""
    try:
        return holder.read_text(encoding="utf-8"), holder.stat().st_mtime_ns
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def _is_dead_process(text: str) -> bool:
    """Return whether the holder was a process of this machine that has ended."""
    try:
        facts = parse_json(text)
        return facts["host"] == platform.node() and not still_runs(facts["pid"], float(facts["start"]))
    except (ValueError, KeyError, TypeError, psutil.Error):
        return False
