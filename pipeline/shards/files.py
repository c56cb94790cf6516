"""Files of a shard set: on a disk, or in a store, of which blocks may be kept on a disk of the node.

One block is one request for its bytes, because a block is read by one lane of one rank: nothing is fetched twice in an
epoch, and ranks need no coordination.
"""

import os
import shutil
import sys
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa

from clozeline.configuration.redaction import redact_text
from clozeline.errors import message_text
from clozeline.files import replacing
from clozeline.pipeline.shards.file_system import ObjectMissingError, ObjectRefusedError
from clozeline.pipeline.shards.manifest import ManifestError, read_regular
from clozeline.pipeline.shards.store import Range, RemoteStore, StoreOptions
from clozeline.repair import repair_of

Content: TypeAlias = bytes | memoryview
Digest: TypeAlias = Callable[[bytes], bytes]
_KEPT_FREE: Final = 0.05  # share of a disk that a cache leaves free


class SetFiles:
    """The files of a set in a folder, by their path relative to it.

    They are read with `pread`, never mapped: a mapped file that is truncated kills the process, a short read is an
    exception. Each read opens and closes its file, so a set holds no descriptors and may be used from any thread.
    """

    is_remote = False

    def __init__(self, base: str) -> None:
        self._base = base

    def open_cache(self, index_sha256: str) -> None:
        """Keep what is read on this node, if the options say so: the hash of the index stands for all blocks."""

    def where(self, name: str) -> str:
        """Return the file as messages name it."""
        return f"{self._base}/{name}"

    def read_whole(self, name: str, limit: int) -> bytes:
        """Read a file of at most `limit` bytes."""
        where = self.where(name)
        try:
            return read_regular(Path(where), limit)
        except OSError as error:
            raise ManifestError(f"{where}: cannot be read ({error}); {repair_of(where)}") from error

    def read_optional(self, name: str, limit: int) -> bytes | None:
        """Read a file that need not be there; a link to nothing is no absence, because it may name blocks."""
        return self.read_whole(name, limit) if os.path.lexists(self.where(name)) else None

    def read(self, name: str, part: Range) -> Content:
        """Read exactly a range of a file."""
        memory, filled = memoryview(pa.allocate_buffer(part[1] - part[0])), 0
        descriptor = os.open(self.where(name), os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe would wait for its writer
        try:
            while filled < len(memory):  # a network file system may give less than the file has
                got = os.preadv(descriptor, [memory[filled:]], part[0] + filled)
                if not got:
                    raise OSError(f"{filled}: the file is truncated")
                filled += got
        finally:
            os.close(descriptor)
        return memory.toreadonly()

    def read_hashed(self, name: str, part: Range, digest: Digest, expected: bytes) -> Content:
        """Read a range whose hash should be `expected`, which the caller compares."""
        return self.read(name, part)

    def sizes(self, folders: Collection[str], files: int) -> dict[str, int] | None:
        """List sizes in bytes of all files in some folders, of about `files`; None where this cannot be."""
        sizes: dict[str, int] = {}
        for folder in folders:
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.where(folder)) as entries:
                sizes |= {_join(folder, entry.name): entry.stat().st_size for entry in entries if entry.is_file()}
        return sizes

    def stats(self) -> dict[str, float]:
        """Return requests, retries and bytes fetched from a store; with a cache also its hits and misses."""
        return {}

    def release(self) -> None:
        """Close idle connections."""


class RemoteFiles(SetFiles):
    """The files of a set below a URL, through a cache if there is one."""

    is_remote = True

    def __init__(self, base: str, options: StoreOptions) -> None:
        super().__init__(base)
        self._store = RemoteStore(base, options)
        self._cache: _Cache | None = None

    def open_cache(self, index_sha256: str) -> None:
        if (folder := self._store.options.cache_dir) is not None:
            self._cache = _Cache(folder.absolute() / "clozeline" / index_sha256[:32])

    def where(self, name: str) -> str:
        return redact_text(f"{self._base}/{name}")

    def read_whole(self, name: str, limit: int) -> bytes:
        return self._store.read_whole(f"{self._base}/{name}", limit)

    def read_optional(self, name: str, limit: int) -> bytes | None:
        # who may not list a bucket is refused what is not there
        with suppress(ObjectMissingError, ObjectRefusedError):
            return self.read_whole(name, limit)
        return None

    def read(self, name: str, part: Range) -> bytes:
        return self._store.read(f"{self._base}/{name}", part)

    def read_hashed(self, name: str, part: Range, digest: Digest, expected: bytes) -> bytes:
        """Read a range from the cache or the store; once more after a bad transfer, then whatever it is."""
        if self._cache is not None and (kept := self._cache.get(digest, expected)) is not None:
            return kept
        content = self.read(name, part)
        if digest(content) != expected:
            content = self.read(name, part)
        if self._cache is not None and digest(content) == expected:
            self._cache.put(expected, content)
        return content

    def sizes(self, folders: Collection[str], files: int) -> dict[str, int] | None:
        sizes: dict[str, int] = {}
        for folder in folders:
            listing = self._store.sizes(_join(self._base, folder), files)
            if listing is None:
                return None
            sizes |= {_join(folder, name): size for name, size in listing.items()}
        return sizes

    def stats(self) -> dict[str, float]:
        store = self._store
        counters = {"requests": store.requests, "retries": store.retries, "fetched_bytes": store.bytes}
        if self._cache is not None:
            counters |= {"cache_hits": self._cache.hits, "cache_misses": self._cache.misses}
        return dict(counters)

    def release(self) -> None:
        self._store.close()


class _Cache:
    """Parts of one set on a disk of this node, by their hash: one file each, renamed into its place, for all processes.

    Nothing is evicted: an epoch reads every block once, in its own order, so the block read last is no likelier to come
    soon than any other. Nothing is trusted: the hash is compared at each read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._broken = folder, False
        self._lock = threading.Lock()
        self.hits = self.misses = 0

    def get(self, digest: Digest, expected: bytes) -> bytes | None:
        """Return the content with this hash, or None."""
        content = None
        with suppress(OSError):
            content = self._path(expected).read_bytes()
        intact = content is not None and digest(content) == expected
        with self._lock:
            self.hits += intact
            self.misses += not intact
        return content if intact else None

    def put(self, expected: bytes, content: bytes) -> None:
        """Store content while the disk has room; a disk that fails stops the caching, not the run."""
        path = self._path(expected)
        try:
            if not self._broken:
                path.parent.mkdir(parents=True, exist_ok=True)
                disk = shutil.disk_usage(path.parent)
                if disk.free - len(content) > _KEPT_FREE * disk.total:
                    with replacing(path, durable=False) as part:
                        part.write_bytes(content)
        except OSError as error:
            self._broken = True
            sys.stderr.write(
                message_text(f"{self._folder}: blocks are no longer cached ({error}); reading continues\n")
            )

    def _path(self, expected: bytes) -> Path:
        name = expected.hex()
        return self._folder / name[:3] / name


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder and name else folder or name
