"""Compute how much memory a process may use: its share of the machine or container."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_CONTAINER_LIMITS: Final = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)
"""Linux files with the memory limit of a container (control groups versions 2 and 1)."""
_PART: Final = 2
"""Divisor of the memory: half of it is left to everything else."""

_processes = 1


def share_memory(processes: int) -> None:
    """Set how many processes with equal work share this machine; it holds for this process."""
    global _processes
    _processes = processes


def find_memory() -> int:
    """Return the bytes of memory of this machine, or of the container if it has less."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _CONTAINER_LIMITS:
        with suppress(OSError, ValueError):  # no such file, or `max`
            sizes.append(int(Path(name).read_text(encoding="ascii")))
    return min(sizes)


def memory_share() -> int:
    """Return the bytes that this process may use for one purpose, such as a window."""
    return find_memory() // _PART // _processes


def explain_share() -> str:
    """Return how `memory_share` was computed, for messages."""
    gib = find_memory() / 2**30
    others = f", divided among {_processes} processes" if _processes > 1 else ""
    return f"half of {gib:.1f} GiB of memory{others}"


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    import psutil  # imported here, because most callers of this module do not need it

    return int(psutil.Process().memory_info().rss)
