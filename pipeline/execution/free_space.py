"""Compare what a stage will write with the free space, before it starts.

A stage writes about as much as the one before it: in a run on pages of English novels, 0.6 to 1.1 times as much, if it
drops no document. What its own finished units wrote says it better.
"""

import shutil
from pathlib import Path
from typing import Final

from clozeline.errors import StorageError

_UNITS: Final = ("bytes", "KB", "MB", "GB", "TB")


def size_text(size: float) -> str:
    """Return a number of bytes in decimal units: `7.3 GB`."""
    for unit in _UNITS[:-1]:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == _UNITS[0] else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {_UNITS[-1]}"


def free_bytes(folder: Path) -> int:
    """Return the free bytes of the file system of a folder, which need not exist yet."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    return shutil.disk_usage(existing).free


def check_free_space(name: str, folder: Path, expected: int, least: int = 0) -> str:
    """Return a warning if a stage may need more than the free space, or "".

    `expected` is about what it writes, or most if it may drop documents; `least` is what it writes in any case.

    Raises:
        StorageError: there is less than that.
    """
    free = free_bytes(folder)
    if free >= expected:
        return ""
    needed = f"{'' if least else 'up to '}about {size_text(expected)}"
    sizes = f"{name}: expected {needed} to write into {folder}, got {size_text(free)} of free space"
    if free < least:
        raise StorageError(
            f"{sizes}: free some, or move the folder to a larger disk and set `output` to it; finished units are kept"
        )
    return f"{sizes}: it may not be enough; set `output` to a larger disk, or give fewer files as `input`"
