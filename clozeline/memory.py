"""How much memory a process may take: its share of that of the machine or container."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_CONTAINER_LIMITS: Final = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)
"""Files of Linux that hold the limit of a container, in versions 2 and 1 of control groups."""
_PART: Final = 2
"""Half of the memory is left to everything else."""

_processes = 1


def share_memory(processes: int) -> None:
    """Note how many processes share this machine with the same work; it holds for this process."""
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
    """Return the bytes that this process may take for one thing, such as a window: half of its share."""
    return find_memory() // _PART // _processes


def explain_share() -> str:
    """Return how `memory_share` was found."""
    gib = find_memory() / 2**30
    others = f", divided among {_processes} processes" if _processes > 1 else ""
    return f"half of {gib:.1f} GiB of memory{others}"
