"""Read the files of a shard set, on disk or in a store.

One lane of one rank reads a block, so nothing is fetched twice in an epoch, and ranks need no
coordination. A request fetches a block, or several that follow one another.
"""

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Self, TypeAlias

import pyarrow as pa

from clozeline.configuration.redaction import redact_text
from clozeline.pipeline.block_options import StoreOptions
from clozeline.pipeline.shards.manifest import ManifestError, read_regular
from clozeline.pipeline.shards.store import Range, RemoteStore
from clozeline.repair import rebuild_hint

Content: TypeAlias = bytes | memoryview
Digest: TypeAlias = Callable[[Content], bytes]


class SetFiles:
    """The files of a set in a folder, by their path relative to it.

    They are read with `pread`, never mapped: truncating a mapped file kills the process, while a
    short read is an exception. Each read opens and closes its file, so a set holds no descriptors
    and may be used from any thread.
    """

    is_remote = False

    def __init__(self, base: str) -> None:
        self._base = base

    def where(self, name: str) -> str:
        """Return the name of a file in messages."""
        return f"{self._base}/{name}"

    def read_whole(self, name: str, limit: int) -> bytes:
        """Read a complete file of at most `limit` bytes."""
        where = self.where(name)
        try:
            return read_regular(Path(where), limit)
        except OSError as error:
            raise ManifestError(
                f"{where}: cannot be read ({error.strerror}); {rebuild_hint(where)}"
            ) from error

    def read(self, name: str, part: Range) -> Content:
        """Read exactly this range of a file."""
        memory = memoryview(pa.allocate_buffer(part[1] - part[0]))
        filled = 0
        # O_NONBLOCK: opening a pipe would wait for its writer
        descriptor = os.open(self.where(name), os.O_RDONLY | os.O_NONBLOCK)

        try:
            while filled < len(memory):  # a network file system may return less than requested
                got = os.preadv(descriptor, [memory[filled:]], part[0] + filled)
                if not got:
                    raise OSError(f"{filled}: the file is truncated")
                filled += got
        finally:
            os.close(descriptor)

        return memory.toreadonly()

    def read_hashed(self, name: str, part: Range, digest: Digest, expected: bytes) -> Content:
        """Read a range whose hash should be `expected`; the caller compares the hash."""
        return self.read(name, part)

    def fetch(self, name: str, part: Range) -> Self:
        """Return these files with a range in memory if they are in a store."""
        return self

    def sizes(self, folders: Collection[str], files: int) -> dict[str, int] | None:
        """Return the sizes of all files in some folders (about `files`).

        None if they cannot be listed.
        """
        sizes: dict[str, int] = {}

        for folder in folders:
            with (
                suppress(FileNotFoundError, NotADirectoryError),
                os.scandir(self.where(folder)) as entries,
            ):
                sizes |= {
                    _join(folder, entry.name): entry.stat().st_size
                    for entry in entries
                    if entry.is_file()
                }

        return sizes

    def stats(self) -> dict[str, float]:
        """Return requests, retries and fetched bytes of a store; empty for a disk."""
        return {}

    def release(self) -> None:
        """Close idle connections."""


class RemoteFiles(SetFiles):
    """The files of a set below a URL."""

    is_remote = True

    def __init__(self, base: str, options: StoreOptions) -> None:
        super().__init__(base)
        self._store = RemoteStore(base, options)
        self._fetched = ("", 0, memoryview(b""))

    def where(self, name: str) -> str:
        return redact_text(f"{self._base}/{name}")

    def read_whole(self, name: str, limit: int) -> bytes:
        return self._store.read_whole(f"{self._base}/{name}", limit)

    def read(self, name: str, part: Range) -> bytes:
        return self._store.read(f"{self._base}/{name}", part)

    def read_hashed(self, name: str, part: Range, digest: Digest, expected: bytes) -> Content:
        """Read a range, and read it again if the hash is wrong."""
        fetched_name, start, fetched = self._fetched
        content: Content = fetched[part[0] - start : part[1] - start]
        if name != fetched_name or part[0] < start or len(content) < part[1] - part[0]:
            content = self.read(name, part)
        return content if digest(content) == expected else self.read(name, part)

    def fetch(self, name: str, part: Range) -> Self:
        files = copy(self)
        files._fetched = (name, part[0], memoryview(self.read(name, part)))
        return files

    def sizes(self, folders: Collection[str], files: int) -> dict[str, int] | None:
        sizes: dict[str, int] = {}
        for folder in folders:
            listing = self._store.sizes(_join(self._base, folder), files)
            if listing is None:
                return None
            sizes |= {_join(folder, name): size for name, size in listing.items()}
        return sizes

    def stats(self) -> dict[str, float]:
        return {
            "requests": self._store.requests,
            "retries": self._store.retries,
            "fetched_bytes": self._store.bytes,
        }

    def release(self) -> None:
        self._store.close()


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder and name else folder or name
