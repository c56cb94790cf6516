"""Compute how much memory and how many cores a process may use of its machine or container."""

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/")
_GROUPS: Final = "proc/self/cgroup"
"""Linux file with the control groups of this process: `id:controllers:path` a line."""
_MEMORY: Final = {
    "": ("sys/fs/cgroup", "memory.max"),
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
}
"""Folder and file of a group's memory limit, by controller; version 2 names none."""
_CORES: Final = {
    "": ("sys/fs/cgroup", "cpu.max"),
    "cpu": ("sys/fs/cgroup/cpu", "cpu.cfs_quota_us"),
}
"""The same of microseconds of CPU time in a period, which version 2 names as well."""
_USUAL_PERIOD: Final = "100000"
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
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([size, *(int(limit) for limit, *_ in _read_limits(root, _MEMORY))])


def find_cores(root: Path = _ROOT) -> int:
    """Return the cores that this process may use, at least 1: also of its control groups."""
    cores = len(os.sched_getaffinity(0))
    for quota, *period in _read_limits(root, _CORES):
        cores = min(cores, math.ceil(int(quota) / int((*period, _USUAL_PERIOD)[0])))
    return cores


def _read_limits(root: Path, files: Mapping[str, tuple[str, str]]) -> Iterator[list[str]]:
    """Yield the words of the limits of all control groups above us that have one."""
    groups = [f"0:{controller}:/" for controller in files]  # the root of what a container sees
    with suppress(OSError):
        groups += (root / _GROUPS).read_text(encoding="utf-8").splitlines()
    for group in groups:
        _, controllers, path = group.split(":", 2)
        for folder, name in [files[each] for each in controllers.split(",") if each in files]:
            limits = root / folder / path.strip("/") / name
            for above in limits.relative_to(root / folder).parents:
                with suppress(OSError):
                    words = (root / folder / above / name).read_text(encoding="ascii").split()
                    if words and words[0].isdigit():  # not `max`, and not -1
                        yield words


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
