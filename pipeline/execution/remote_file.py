"""An input file of a store: read by ranges, retried, hashed while it is read, never downloaded in one piece.

Bytes come in pages; the pages of a request double while a file is read from front to back, and stop at the end of the
unit's range. A page is kept until 8 MiB of further ones are read, so that probes do not ask again.
"""

import io
import json
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import BinaryIO, Final, Literal, NamedTuple, cast
from urllib.parse import unquote

import xxhash

from clozeline.errors import StorageError
from clozeline.pipeline.recipe import InputStore
from clozeline.pipeline.shards.errors import ObjectTooShortError, StrayAnswerError
from clozeline.pipeline.shards.object_facts import ObjectFacts
from clozeline.pipeline.shards.store import RemoteStore, StoreOptions

_PAGE: Final = 1 << 16
_AHEAD: Final = 128  # pages of the largest request
_CONTENTS: Final = 4096  # files whose hashes are kept until their unit ends
_END_BYTES: Final = 1 << 16


class RemoteFacts(NamedTuple):
    """The size of a file, under the name that `Path.stat` gives it."""

    st_size: int


@dataclass(frozen=True)
class RemoteFile:
    """A file in a store with the size and version that it had when the inputs were listed.

    `part` is the range of a unit: requests that read ahead stop at its end, and its bytes are hashed as they are read.
    """

    url: str
    size: int
    version: str
    store: InputStore
    part: tuple[int, int] = (0, 0)

    @property
    def name(self) -> str:
        """Name of the file, without the query of a web address."""
        return file_name(self.url)

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    def __str__(self) -> str:
        return self.url

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Open the file; a read raises StorageError if the store fails, refuses, or has less than it said."""
        return cast(BinaryIO, io.BufferedReader(_RawFile(self), _PAGE))

    def stat(self) -> RemoteFacts:
        return RemoteFacts(self.size)

    def is_file(self) -> bool:
        return True

    def restricted(self, start: int, end: int) -> "RemoteFile":
        """Return the file for the unit that reads this range."""
        return replace(self, part=(start, end))

    def observe(self) -> ObjectFacts:
        """Return the present size and version; of a store without versions, the hash of both ends is the version."""
        base, name = split_url(self.url)
        return observe(open_store(base, self.store), name)

    def read_range(self, start: int, end: int) -> bytes:
        """Read a range; StorageError if the file has changed, is shorter, or cannot be read."""
        base, name = split_url(self.url)
        try:
            return open_store(base, self.store).read(name, (start, end))
        except StrayAnswerError as error:
            raise _no_ranges(self.url) from error
        except ObjectTooShortError as error:
            if self.observe() != ObjectFacts(self.size, self.version):
                raise StorageError(f"{self.url}: changed while it was read: run again later") from error
            raise

    def range_hash(self, start: int, end: int) -> str:
        """Return the XXH3-128 (hex) of a range: of the bytes that were read, and of the rest as it is now."""
        return _content_of(self.restricted(start, min(end, self.size))).finish_hash()


def split_url(url: str) -> tuple[str, str]:
    """Return the folder and the rest of a URL: the name, and the query of a web address."""
    path, mark, query = url.partition("?") if is_web_address(url) else (url, "", "")
    base, _, name = path.rpartition("/")
    return base, f"{name}{mark}{query}"


def file_name(url: str) -> str:
    """Return the last part of a URL, without query and percent signs of a web address."""
    name = split_url(url)[1]
    return unquote(name.partition("?")[0]) if is_web_address(url) else name


def is_web_address(url: str) -> bool:
    """Return whether a URL may have a query."""
    return url.lower().startswith(("http://", "https://"))


def observe(store: RemoteStore, name: str) -> ObjectFacts:
    """Return size and version of an object, with the hash of its ends where the store has no version."""
    try:
        facts = store.facts(name)
        if facts.version:
            return facts
        ends = ((0, min(_END_BYTES, facts.size)), (max(0, facts.size - _END_BYTES), facts.size))
        digest = xxhash.xxh3_128(b"".join(store.read(name, each) for each in ends if each[0] < each[1]))
    except StrayAnswerError as error:
        raise _no_ranges(store.url(name)) from error
    return ObjectFacts(facts.size, f"ends {digest.hexdigest()}")


def _no_ranges(url: str) -> StorageError:
    return StorageError(
        f"{url}: expected an answer of part of the file (status 206), got all of it: the server ignores ranges; "
        "download the file, and give its local path"
    )


_stores: dict[str, RemoteStore] = {}


def open_store(base: str, options: InputStore) -> RemoteStore:
    """Return the reader of a folder of a store; each process has one."""
    key = json.dumps([base, options.retries, options.timeout_s, options.fsspec], sort_keys=True)
    if key not in _stores:
        _stores[key] = RemoteStore(
            base, StoreOptions(retries=options.retries, timeout_s=options.timeout_s, fsspec=options.fsspec)
        )
    return _stores[key]


class _Content:
    """Pages of a file around one range, and the hash of the range up to where it was read without a gap."""

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._pages: OrderedDict[int, bytes] = OrderedDict()
        self._digest, self._hashed = xxhash.xxh3_128(), file.part[0]
        self._next, self._count = -1, 1
        self._lock = threading.Lock()  # Arrow reads columns in threads

    def page(self, index: int) -> bytes:
        """Return a page, from the store if it is not kept."""
        with self._lock:
            if index not in self._pages:
                self._fetch(index)
            page = self._pages[index]
            self._hash(index * _PAGE, page)
            return page

    def finish_hash(self) -> str:
        """Return the hash of the range, after reading what nobody has read yet."""
        while self._hashed < self._file.part[1]:
            self.page(self._hashed // _PAGE)
        return self._digest.hexdigest()

    def forget_pages(self) -> None:
        self._pages.clear()

    def _fetch(self, index: int) -> None:
        self._count = min(_AHEAD, 2 * self._count) if index == self._next else 1
        size, end = self._file.size, self._file.part[1]
        limit = -(-(end if index * _PAGE < end else size) // _PAGE)
        stop = min(index + self._count, limit)
        stop = next((other for other in range(index + 1, stop) if other in self._pages), stop)
        body = self._file.read_range(index * _PAGE, min(stop * _PAGE, size))
        for at in range(index, stop):
            self._pages[at] = body[(at - index) * _PAGE : (at - index + 1) * _PAGE]
        self._next = stop
        while len(self._pages) > 2 * _AHEAD:
            self._pages.popitem(last=False)

    def _hash(self, start: int, page: bytes) -> None:
        if start <= self._hashed < start + len(page) and self._hashed < self._file.part[1]:
            new = page[self._hashed - start : self._file.part[1] - start]
            self._digest.update(new)
            self._hashed += len(new)


_contents: OrderedDict[tuple[str, str, tuple[int, int]], _Content] = OrderedDict()


def _content_of(file: RemoteFile) -> _Content:
    """Return the content of a file in this process; only the one that is read keeps its pages."""
    key = (file.url, file.version, file.part)
    if key not in _contents:
        for other in _contents.values():
            other.forget_pages()
        _contents[key] = _Content(file)
        if len(_contents) > _CONTENTS:
            _contents.popitem(last=False)
    return _contents[key]


class _RawFile(io.RawIOBase):
    """Reads pages at a position."""

    def __init__(self, file: RemoteFile) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._at >= self._file.size:
            return 0
        inside = self._at % _PAGE
        part = _content_of(self._file).page(self._at // _PAGE)[inside : inside + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)
