"""Compute how much memory a process may use: its share of the machine or container."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/")
_GROUPS: Final = "proc/self/cgroup"
"""Linux file with the control groups of this process: `id:controllers:path` a line."""
_LIMITS: Final = {
    "": ("sys/fs/cgroup", "memory.max"),
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
}
"""Folder and file of a group's memory limit, by controller; version 2 names none."""
_PART: Final = 2
"""Divisor of the memory: half of it is left to everything else."""

_processes = 1


def share_memory(processes: int) -> None:
    """Set how many processes with equal work share this machine; it holds for this process."""
    global _processes
    _processes = processes


def find_memory(root: Path = _ROOT) -> int:
    """Return the bytes of memory of this machine, or of a control group above us if it has less.

    That is the group of a container, of a job of a cluster, or of a service.
    """
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    groups = ["0::/", "1:memory:/"]  # the root of what a container sees
    with suppress(OSError):
        groups += (root / _GROUPS).read_text(encoding="utf-8").splitlines()
    for group in groups:
        _, controllers, path = group.split(":", 2)
        for folder, name in [_LIMITS[each] for each in controllers.split(",") if each in _LIMITS]:
            limits = root / folder / path.strip("/") / name
            for above in limits.relative_to(root / folder).parents:
                with suppress(OSError, ValueError):  # no such file, or `max`
                    sizes.append(int((root / folder / above / name).read_text(encoding="ascii")))
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
