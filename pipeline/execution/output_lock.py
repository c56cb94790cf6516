"""Allow one run at a time per output, also on shared file systems.

On one machine the lock of the system decides. Some shared file systems have no such lock, or keep
it on each machine. So a run also creates the file `.holder`, which is atomic on all of them, and
renews its modification time. A waiting run takes over once that time has not changed for a while by
its own clock. Clocks of two machines are never compared.
"""

import fcntl
import json
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Final

from clozeline.errors import StorageError
from clozeline.files import lock, open_unlinked, process_start, read_json, still_runs
from clozeline.repair import cannot_write

_RENEWAL_INTERVAL_S: Final = 20.0
# Seconds without a renewal after which a holder on another machine counts as dead.
_DEAD_S: Final = 180.0
_POLL_S: Final = 1.0


@contextmanager
def hold_output(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold an output folder; `waiting` is called once if another process holds it."""
    holder = folder / ".holder"
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(_RENEWAL_INTERVAL_S):
            with suppress(OSError):
                os.utime(holder, follow_symlinks=False)

    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _hold(stack.enter_context(open_unlinked(folder / ".lock", "w")), holder, cache(waiting))
        except OSError as error:
            raise StorageError(cannot_write(folder, error)) from error

        renewal = threading.Thread(target=renew, daemon=True)
        renewal.start()

        try:
            yield
        finally:
            ended.set()
            renewal.join()
            holder.unlink(missing_ok=True)


def _hold(file: IO[str], holder: Path, waiting: Callable[[], None]) -> None:
    """Lock the file, then create the holder file, each after its current holder has ended."""
    if not lock(file):
        waiting()
        fcntl.flock(file, fcntl.LOCK_EX)

    process = {"host": platform.node(), "pid": os.getpid(), "start": process_start(os.getpid())}
    seen = 0
    since = time.monotonic()

    while True:
        with suppress(FileExistsError), holder.open("x", encoding="utf-8") as mine:
            try:
                mine.write(json.dumps(process))
                mine.flush()
            except OSError:  # from an empty file, nobody could tell that its process has ended
                holder.unlink()
                raise
            return

        with suppress(FileNotFoundError):
            if (renewed := holder.lstat().st_mtime_ns) != seen:
                seen = renewed
                since = time.monotonic()
            if _has_died(holder) or time.monotonic() - since > _DEAD_S:
                holder.unlink()
            else:
                waiting()
                time.sleep(_POLL_S)


def _has_died(holder: Path) -> bool:
    """Return whether the holder was a process of this machine that has ended."""
    process = read_json(holder) or {}
    try:
        if process["host"] != platform.node():
            return False
        return not still_runs(int(process["pid"]), float(process["start"]))
    except (KeyError, ValueError, TypeError):
        return False
