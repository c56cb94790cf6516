"""Find input files in a store by URL or pattern, and read them by ranges."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from glob import has_magic
from itertools import takewhile
from pathlib import PurePosixPath
from typing import BinaryIO, Final, Literal, NamedTuple, cast
from urllib.parse import unquote

import xxhash

from clozeline.configuration.redaction import remember
from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.block_options import StoreOptions
from clozeline.pipeline.recipe import InputEntry
from clozeline.pipeline.shards.file_system import (
    ObjectMissingError,
    ObjectRefusedError,
    ObjectTooShortError,
)
from clozeline.pipeline.shards.store import ObjectProperties, RemoteStore

_REQUEST_BYTES: Final = 1 << 20
"""Bytes of a request."""
_SMALL_REQUEST_BYTES: Final = 1 << 16
"""Bytes of the first request after a seek: many callers read the start of a file alone."""
END_BYTES: Final = 1 << 16
"""Bytes at each end of a file that are hashed to detect a change if a store has no versions."""


class RemoteFileSize(NamedTuple):
    """Size of a file, named as in the result of `Path.stat`."""

    st_size: int


@dataclass(frozen=True)
class RemoteFile:
    """A file in a store, with its size and version when the inputs were listed."""

    url: str
    size: int
    version: str
    store: StoreOptions

    @property
    def name(self) -> str:
        """Name of the file, without the query of a web address."""
        return _file_name(self.url)

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    def __str__(self) -> str:
        return self.url

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Open the file.

        Reading raises StorageError if the store fails, refuses or sends too little.
        """
        return cast(BinaryIO, io.BufferedReader(_RawFile(self), _REQUEST_BYTES))

    def stat(self) -> RemoteFileSize:
        return RemoteFileSize(self.size)

    def is_file(self) -> bool:
        return True

    def observe(self) -> ObjectProperties:
        """Return the current size and version.

        Without a version, the hash of both ends serves as one.
        """
        return _observe(_open_store(self.url, self.store), self.url)

    def read_range(self, start: int, end: int) -> bytes:
        """Read a range; StorageError if the file has changed, is shorter, or cannot be read."""
        try:
            return _open_store(self.url, self.store).read(self.url, (start, end))
        except ObjectTooShortError as error:
            if self.observe() != ObjectProperties(self.size, self.version):
                raise StorageError(
                    f"{self.url}: changed while it was read: run again later"
                ) from error
            raise


class _RawFile(io.RawIOBase):
    """Reads a file from a position."""

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._at = 0
        self._follows = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = (
            offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        )
        self._follows = False
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        most = len(buffer) if self._follows else min(len(buffer), _SMALL_REQUEST_BYTES)
        stop = min(self._at + most, self._file.size)
        if self._at >= stop:
            return 0
        content = self._file.read_range(self._at, stop)
        buffer[: len(content)] = content
        self._at = stop
        self._follows = True
        return len(content)


def remote_files(url: str, entry: InputEntry) -> Iterator[tuple[str, RemoteFile]]:
    """Yield name and file of the object with this URL, or of all objects that match it.

    The name is the path below the folder before the first wildcard.

    Raises:
        ConfigurationError: no file matches, the store cannot list, or the scheme needs a package.
        StorageError: the file does not exist, access is denied, or the store fails.
    """
    options = entry.store or StoreOptions()
    remember({"url": url, "fsspec": options.fsspec})
    store = _open_store(url, options)
    path = url.partition("?")[0] if store.is_web else url

    if not _file_name(url):
        raise ConfigurationError(
            f"input {url}: expected a file or a pattern, got a folder; write {url}**/*.jsonl"
        )

    try:
        observed = _observe(store, url)
        yield _file_name(url), RemoteFile(url, observed.size, observed.version, options)
    except (ObjectMissingError, ObjectRefusedError):
        if not has_magic(path):
            raise
    else:
        return

    # no object has this name: list the objects that match it as a pattern
    parts = path.split("/")
    root = "/".join(takewhile(lambda part: not has_magic(part), parts[:-1]))
    matches = store.matches(root, path[len(root) + 1 :])
    names = [
        name
        for name in sorted(matches)
        if not any(part.startswith(".") for part in name.split("/"))
    ]
    if not names:
        raise ConfigurationError(f"input {url}: no file matches this pattern")
    for name in names:
        match = f"{root}/{name}"
        found = matches[name] if matches[name].version else _observe(store, match)
        yield name, RemoteFile(match, found.size, found.version, options)


def _file_name(url: str) -> str:
    """Return the last part of a URL; of a web address percent-decoded and without the query."""
    if url.lower().startswith(("http://", "https://")):
        return unquote(url.partition("?")[0].rpartition("/")[2])
    return url.rpartition("/")[2]


def _observe(store: RemoteStore, url: str) -> ObjectProperties:
    """Return size and version of an object.

    Without a version, the hash of both ends serves as one.
    """
    properties = store.properties(url)
    if properties.version:
        return properties

    size = properties.size
    ends = ((0, min(END_BYTES, size)), (max(0, size - END_BYTES), size))
    digest = xxhash.xxh3_128(b"".join(store.read(url, each) for each in ends if each[0] < each[1]))
    return ObjectProperties(size, f"ends {digest.hexdigest()}")


_stores: dict[str, RemoteStore] = {}


def _open_store(url: str, options: StoreOptions) -> RemoteStore:
    """Return the reader of a store; each process creates it once."""
    root = "/".join(url.split("/")[:3])
    key = f"{root} {options}"
    if key not in _stores:
        _stores[key] = RemoteStore(url, options)
    return _stores[key]
