"""A folder as it was: what differs is put back file by file, so that thousands of changes need no copy of it."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path


class FolderState:
    """The files of a folder, with their contents and times, in memory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = {path: path.read_bytes() for path in _below(root) if path.is_file() and not path.is_symlink()}
        self._folders = {path for path in _below(root) if path.is_dir()}
        self._seen = {path: _signature(path) for path in self.files}

    def changes(self) -> dict[Path, bytes | None]:
        """Return the files that differ, with their bytes; None for one that is no file any more."""
        found: dict[Path, bytes | None] = {}
        for path in sorted({*self.files, *_below(self.root)} - self._folders):
            if self._seen.get(path) != _signature(path):
                content = path.read_bytes() if path.is_file() else None
                if path.is_symlink() or path.is_dir() or content != self.files.get(path):
                    found[path] = content
        return found

    def restore(self) -> None:
        """Make the folder what it was."""
        for path in _below(self.root):
            if path.is_symlink() or (path not in self.files and path not in self._folders):
                _remove(path)
        for folder in sorted(self._folders):
            if folder.is_file():
                folder.unlink()
            folder.mkdir(exist_ok=True)
        for path, content in self.files.items():
            if _signature(path) != self._seen[path]:
                _remove(path)
                path.write_bytes(content)
                os.utime(path, ns=(self._seen[path][3], self._seen[path][3]))
                self._seen[path] = _signature(path)


def _below(root: Path) -> list[Path]:
    return [Path(above, name) for above, folders, files in os.walk(root) for name in (*folders, *files)]


def _signature(path: Path) -> tuple[int, int, int, int]:
    """Return type, inode, size and time of a path; zeros where nothing is."""
    try:
        found = path.lstat()
    except OSError:
        return 0, 0, 0, 0
    return stat.S_IFMT(found.st_mode), found.st_ino, found.st_size, found.st_mtime_ns


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
