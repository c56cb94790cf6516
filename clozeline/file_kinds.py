"""Tell files and folders from pipes, sockets and devices."""

import os
import stat
from pathlib import Path
from typing import Final

_KINDS: Final = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def special_kind(path: Path | str) -> str | None:
    """Return the kind of a path that is neither a file nor a folder, such as `a pipe`.

    None otherwise.
    """
    try:
        return _KINDS.get(stat.S_IFMT(os.stat(path).st_mode))  # noqa: PTH116 (also of a text)
    except (OSError, ValueError):  # nothing is there, or the text is not a path
        return None
