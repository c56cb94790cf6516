"""Blocks of remote sets kept on a node's disk: a file a block, no locks, any process may evict.

Nothing here is believed: who reads a block checks its hash, wherever it came from. A file appears whole (temporary
name, rename) and vanishes whole (unlink; who has it open reads on), so readers and writers cannot meet half-way.
"""

from __future__ import annotations

import os
import sys
import threading
import uuid
from pathlib import Path
from typing import Final

__all__ = ["BlockCache"]

_SCANNED_ALWAYS: Final = 256
"""Up to so many files the folder is scanned before each write, so that several processes keep the bound together."""
_LOWERED_TO: Final = 0.9


class BlockCache:
    """The blocks of one set in `folder/<set>/<shard>/<block>`.

    Args:
        folder: of the whole cache; its bound is for all sets in it.
        set_name: name of the set's part of it, such as 16 digits of its digest.
        most_bytes: bound.
    """

    def __init__(self, folder: Path, set_name: str, most_bytes: int) -> None:
        self._folder, self._set = folder, folder / set_name
        self._most = most_bytes
        self._lock = threading.Lock()
        self._files = self._bytes = 0
        self._scanned = self._broken = False
        self.hits = self.misses = self.evicted = 0

    def get(self, shard: int, block: int) -> bytes | None:
        """A block's bytes as they were put, or not at all."""
        path = self._path(shard, block)
        try:
            found = path.read_bytes()
            os.utime(path)  # what was used last is evicted last, also where the disk keeps no access times
        except OSError:
            self.misses += 1
            return None
        self.hits += 1
        return found

    def put(self, shard: int, block: int, content: bytes) -> None:
        """Keep a block; a full disk ends the caching, never the run."""
        if self._broken or len(content) > self._most:
            return
        path = self._path(shard, block)
        part = path.with_name(f"{path.name}.{os.getpid()}.{uuid.uuid4().hex}.tmp")
        try:
            with self._lock:
                self._make_room(len(content))
                path.parent.mkdir(parents=True, exist_ok=True)
                part.write_bytes(content)
                part.replace(path)
                self._files, self._bytes = self._files + 1, self._bytes + len(content)
        except OSError as error:
            part.unlink(missing_ok=True)
            self._broken = True
            sys.stderr.write(f"{self._folder}: blocks are no longer cached ({error}); reading goes on\n")

    def drop(self, shard: int, block: int) -> None:
        """Forget a block, because its hash was wrong."""
        self._path(shard, block).unlink(missing_ok=True)

    def _path(self, shard: int, block: int) -> Path:
        return self._set / str(shard) / str(block)

    def _make_room(self, size: int) -> None:
        if self._scanned and self._files > _SCANNED_ALWAYS and self._bytes + size <= self._most:
            return
        found = []
        for path in self._folder.glob("*/*/*"):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            found.append((status.st_mtime_ns, status.st_size, path))
        self._files, self._bytes, self._scanned = len(found), sum(size for _, size, _ in found), True
        if self._bytes + size <= self._most:
            return
        aim = self._most - size if self._files <= _SCANNED_ALWAYS else int(self._most * _LOWERED_TO) - size
        for _, freed, path in sorted(found):
            if self._bytes <= aim:
                break
            path.unlink(missing_ok=True)
            self.evicted += 1
            self._files, self._bytes = self._files - 1, self._bytes - freed
