"""Cache of remote blocks on the disk of a node: one file per block, no locks, any process may write and evict.

A full cache keeps its content. An epoch reads every block once, in its own order, so the block read last is no
likelier to come soon than any other. Evicting the least recently used at 20 % of a set would give 2 % of hits instead
of 20. Only what other runs left is evicted.

A cached block is not trusted: the reader checks its hash, wherever the bytes came from. Files appear and
disappear atomically (rename; unlink, which keeps an open file readable), so a reader never sees half a block.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from clozeline.errors import message_text
from clozeline.files import replacing

_OWN: Final = "clozeline"
# Processes of a node that may fill the room found by a scan: each uses a share of it before its next scan.
_WRITERS: Final = 16
# Up to this number of files, a scan is too cheap to evict more than necessary in order to scan less often.
_FEW: Final = 256
# Files of a full cache for each block that is not even written before the cache is scanned for room again.
_FILES_A_MISS: Final = 64


class _FullError(Exception):
    """The cache has no space for a block."""


class BlockCache:
    """The blocks of one set in `folder/clozeline/<set>/<shard>/<block>`, or other bytes at the same depth.

    `max_bytes` bounds all sets in the folder, and is kept by all processes together; bytes being written may exceed it
    for a moment. Evicted are files of other sets, and of killed processes, that were last used before this object was
    made.
    """

    def __init__(self, folder: Path, set_name: str, max_bytes: int) -> None:
        self._folder = folder.absolute() / _OWN  # files are evicted by age alone, so they must be all ours
        self._set = self._folder / set_name
        self._limit = max_bytes
        self._lock = threading.Lock()
        self._opened = time.time_ns()
        self._unscanned = 0  # bytes that may be written before the folder is scanned again
        self._passed_over = 0  # blocks that are not written before it is scanned again
        self._broken = False
        self.evicted = 0

    def get(self, shard: int | str, block: int | str) -> bytes | None:
        """Return a block's bytes as they were put, or None."""
        path = self._path(shard, block)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        with contextlib.suppress(OSError):  # a read-only cache is useful too
            os.utime(path)  # for other runs: it is in use, also on disks without access times
        return content

    def put(self, shard: int | str, block: int | str, content: bytes) -> None:
        """Store a block if there is space; a full disk stops caching, not the run."""
        if self._broken or len(content) > self._limit:
            return
        with self._lock:
            self._passed_over -= self._passed_over > 0
            if self._passed_over > 0:
                return
        path = self._path(shard, block)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(_FullError), replacing(path, durable=False) as part:
                part.write_bytes(content)
                self._take_room(len(content))
        except OSError as error:
            if isinstance(error, FileNotFoundError):  # another process evicted it, or removed the folder: not this time
                return
            self._broken = True
            sys.stderr.write(
                message_text(f"{self._folder}: blocks are no longer cached ({error}); reading continues\n")
            )

    def drop(self, shard: int | str, block: int | str) -> None:
        """Forget a block, because its hash was wrong."""
        with contextlib.suppress(OSError):
            self._path(shard, block).unlink()
        with self._lock:
            self._passed_over = 0  # there is room

    def _path(self, shard: int | str, block: int | str) -> Path:
        return self._set / str(shard) / str(block)

    def _take_room(self, size: int) -> None:
        """Reserve space for a file that is already in the folder under a temporary name."""
        with self._lock:
            self._unscanned -= size
            if self._unscanned >= 0:
                return
            cached = sorted(_files(self._folder, depth=3))
            total = sum(size for _, size, _ in cached)
            if total > self._limit:
                aim = self._limit if len(cached) <= _FEW else int(0.9 * self._limit)
                # other runs left files of other sets, and of killed processes
                old = [file for file in cached if file[0] < self._opened]
                left = [file for file in old if file[2].endswith(".tmp") or Path(file[2]).parents[1] != self._set]
                total = self._evict(left, total, aim)
            self._unscanned = max(0, self._limit - total) // _WRITERS
            if total > self._limit:
                self._evict(cached, total - size, self._limit)  # the bound was higher before, or others wrote as well
                self._passed_over = max(_WRITERS, len(cached) // _FILES_A_MISS)
                raise _FullError

    def _evict(self, files: Sequence[tuple[int, int, str]], total: int, aim: int) -> int:
        """Remove files in order while `total` is above `aim`; return the new total."""
        for _, size, path in files:
            if total <= aim:
                break
            Path(path).unlink(missing_ok=True)
            self.evicted += 1
            total -= size
        return total


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
