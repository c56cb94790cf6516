"""Compare what a stage will write with the free space, before it starts.

A stage writes about as much as the largest stage before it: in a run on pages of English novels, 0.6 to 1.1 times as
much. What its own finished units wrote says it better.
"""

import shutil
from pathlib import Path
from typing import Final

from clozeline.errors import StorageError

_SURELY_TOO_SMALL: Final = 0.5
"""A stage is refused if even this share of the expected bytes does not fit; above it, only warned of."""
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


def check_free_space(name: str, folder: Path, expected: int) -> str:
    """Return a warning if a stage may need more than the free space, or "".

    Raises:
        StorageError: if there is less than half of the expected bytes.
    """
    free = free_bytes(folder)
    if free >= expected:
        return ""
    sizes = f"{name}: expected about {size_text(expected)} to write into {folder}, got {size_text(free)} of free space"
    if free < _SURELY_TOO_SMALL * expected:
        raise StorageError(f"{sizes}: free some, or give an output on another disk; finished units are kept")
    return f"{sizes}: it may not be enough"
