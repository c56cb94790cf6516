"""Blocks of remote sets kept on a node's disk: a file a block, no locks, any process may evict.

A cached block is not trusted: the reader checks its hash, wherever the bytes came from. A file appears whole (temporary
name, rename) and disappears whole (unlink; an open file stays readable), so a reader never sees half a block.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pipeline.files import replacing

__all__ = ["BlockCache"]

_OWN: Final = "clozeline"
_WRITERS: Final = 16
"""Processes of a node that may fill the room found by a scan: each uses a share of it before its next scan."""
_FEW: Final = 256
"""Up to this number of files, a scan is too cheap to evict more than necessary in order to scan less often."""


class BlockCache:
    """The blocks of one set in `folder/clozeline/<set>/<shard>/<block>`, or other bytes at places of the same depth.

    Args:
        folder: of the whole cache; its bound is for all sets in it. Other files in the folder are left alone.
        set_name: name of the set's part of it, such as 16 digits of its digest.
        max_bytes: bound, kept by all processes together; bytes being written may exceed it for a moment.
    """

    def __init__(self, folder: Path, set_name: str, max_bytes: int) -> None:
        self._folder = folder / _OWN  # files are evicted by age alone, so they must be all ours
        self._set = self._folder / set_name
        self._limit = max_bytes
        self._lock = threading.Lock()
        self._unscanned = 0  # bytes that may be written before the folder is scanned again
        self._broken = False
        self.evicted = 0

    def get(self, shard: int | str, block: int | str) -> bytes | None:
        """Return a block's bytes as they were put, or None."""
        path = self._path(shard, block)
        try:
            found = path.read_bytes()
        except OSError:
            return None
        with contextlib.suppress(OSError):  # a read-only cache is useful too
            os.utime(path)  # the latest use is evicted last, also on disks without access times
        return found

    def put(self, shard: int | str, block: int | str, content: bytes) -> None:
        """Keep a block; a full disk ends the caching, never the run."""
        if self._broken or len(content) > self._limit:
            return
        path = self._path(shard, block)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path, durable=False) as part:
                part.write_bytes(content)
                self._keep_bound(len(content))
        except OSError as error:
            if isinstance(error, FileNotFoundError):  # another process evicted it, or removed the folder: not this time
                return
            self._broken = True
            sys.stderr.write(f"{self._folder}: blocks are no longer cached ({error}); reading continues\n")

    def drop(self, shard: int | str, block: int | str) -> None:
        """Forget a block, because its hash was wrong."""
        with contextlib.suppress(OSError):
            self._path(shard, block).unlink()

    def _path(self, shard: int | str, block: int | str) -> Path:
        return self._set / str(shard) / str(block)

    def _keep_bound(self, size: int) -> None:
        """Evict the least recently used files; the file being written is in the folder already, and counts."""
        with self._lock:
            self._unscanned -= size
            if self._unscanned >= 0:
                return
            found = sorted(_files(self._folder, depth=3))
            total = sum(size for _, size, _ in found)
            full, aim = (1.0, 1.0) if len(found) <= _FEW else (0.97, 0.9)
            if total > full * self._limit:
                for _, freed, path in found:
                    if total <= aim * self._limit:
                        break
                    Path(path).unlink(missing_ok=True)
                    self.evicted += 1
                    total -= freed
            self._unscanned = (self._limit - total) // _WRITERS


def _files(folder: Path | str, depth: int) -> Iterator[tuple[int, int, str]]:
    """Yield (time of last use, bytes, path) of the files `depth` levels below a folder; they may disappear."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if depth > 1:
                yield from _files(entry.path, depth - 1)
                continue
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat()
                yield status.st_mtime_ns, status.st_size, entry.path
