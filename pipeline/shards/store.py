"""Shard sets that are not on this machine's disks: ranges of objects, fetched block by block.

One block is one request for exactly its bytes, because a block is read by one lane of one rank: nothing is fetched
twice in an epoch, and ranks need no coordination. `http(s)` speaks ranges itself; every other scheme is fsspec's, whose
packages for it (s3fs, gcsfs, adlfs, ...) are imported on first use.
"""

from __future__ import annotations

import random
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

from pydantic import Field
from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.errors import ConfigurationError, StorageError

__all__ = ["Fetch", "ObjectMissingError", "Range", "RemoteStore", "StoreOptions", "as_url"]

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 10.0
_CHUNK: Final = 1 << 20
_URL: Final = re.compile(r"([a-z][a-z0-9+.-]+):/{1,2}(?!/)(.+)", re.IGNORECASE | re.DOTALL)

Range = tuple[int, int] | None
"""First byte and first byte behind, or None for the whole object."""


class Fetch(Protocol):
    """How bytes come from one kind of store; raises OSError where another try may help."""

    def __call__(self, url: str, part: Range, timeout: float) -> bytes:
        """The bytes of a range."""


def as_url(path: Path | str) -> str | None:
    """`path` as a URL if it begins with a scheme, else None; a `Path` has folded the double slash."""
    match = _URL.fullmatch(str(path))
    if match is None or match[1].lower() == "file":
        return None
    return f"{match[1]}://{match[2]}"


class ObjectMissingError(StorageError):
    """There is no such object, or nobody may know that there is."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class StoreOptions:
    """How sets in a store are read; files of this machine need none of it."""

    retries: Annotated[int, Field(ge=0)] = 4
    """further tries after a failed request"""
    timeout_s: Annotated[float, Field(gt=0)] = 60.0
    """seconds that one request may take"""
    cache_dir: Path | None = None
    """folder on this node that keeps blocks, shared by its processes; null keeps none"""
    cache_bytes: Annotated[int, Field(ge=1)] = 64 << 30
    """most bytes that it keeps, of all sets; which blocks a rank reads changes every epoch, so the share of hits is
    the share of the data that fits"""
    fsspec: dict[str, Any] = Field(default_factory=dict)
    """options of fsspec's file system, such as an endpoint"""


class RemoteStore:
    """Reads objects below a URL, with retries.

    Failed requests are repeated after a random pause that doubles on average (full jitter), so that ranks which failed
    together do not come back together. What cannot become better fails at once: an object that is not there, and a
    server that ignores ranges, since it would send whole shards for every block.
    """

    def __init__(
        self,
        base: str,
        options: StoreOptions,
        fetch: Fetch | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.base = base.rstrip("/")
        self.options = options
        self._fetch = fetch or (_http if base.lower().startswith("http") else _Fsspec(self.base, options.fsspec))
        self._pause = pause
        self._lock = threading.Lock()
        self.requests = self.retries = self.bytes = 0

    def url(self, name: str) -> str:
        """URL of an object."""
        return f"{self.base}/{name}"

    def read(self, name: str, part: Range = None) -> bytes:
        """An object, or a range of it.

        Raises:
            StorageError: it cannot be read, after all retries.
        """
        url = self.url(name)
        for attempt in range(self.options.retries + 1):
            with self._lock:
                self.requests += 1
                self.retries += attempt > 0
            try:
                found = self._fetch(url, part, self.options.timeout_s)
                if part is not None and len(found) != part[1] - part[0]:
                    raise OSError(f"expected {part[1] - part[0]} bytes at {part[0]}, got {len(found)}")
            except FileNotFoundError as error:
                raise ObjectMissingError(f"{url}: there is no such object, or no right to read it") from error
            except OSError as error:
                if attempt == self.options.retries:
                    raise StorageError(f"{url}: cannot be read after {attempt + 1} tries: {error}") from error
                longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**attempt)
                self._pause(random.uniform(0, longest))
            else:
                with self._lock:
                    self.bytes += len(found)
                return found
        raise AssertionError("unreachable")

    def sizes(self, folder: str) -> dict[str, int] | None:
        """Bytes of every object in a folder by one listing; None where the store has none."""
        return (
            self._fetch.sizes(self.url(folder) if folder else self.base) if isinstance(self._fetch, _Fsspec) else None
        )


class _Fsspec:
    """Ranges by fsspec."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        import fsspec

        try:
            self._system, _ = fsspec.core.url_to_fs(url, **options)
        except (ImportError, ValueError) as error:
            raise ConfigurationError(f"{url}: no reader for this kind of store: {error}") from error

    def __call__(self, url: str, part: Range, timeout: float) -> bytes:
        path = self._system._strip_protocol(url)
        start, stop = (None, None) if part is None else part
        found: bytes = self._system.cat_file(path, start=start, end=stop)
        return found

    def sizes(self, url: str) -> dict[str, int]:
        """Bytes by name."""
        entries = self._system.ls(self._system._strip_protocol(url), detail=True)
        return {entry["name"].rsplit("/", 1)[-1]: int(entry["size"]) for entry in entries if entry["type"] == "file"}


def _http(url: str, part: Range, timeout: float) -> bytes:
    """A range by HTTP; the whole answer must come within `timeout` seconds.

    Raises:
        StorageError: the server sends the whole object instead of the range, or refuses.
        FileNotFoundError: status 403, 404 or 410.
        OSError: anything that may be better the next time.
    """
    headers = {} if part is None else {"Range": f"bytes={part[0]}-{part[1] - 1}"}
    deadline = time.monotonic() + timeout
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout) as answer:
            if part is not None and answer.status != 206:
                raise StorageError(
                    f"{url}: the server ignores ranges (status {answer.status} instead of 206), so every block would "
                    "fetch its whole shard; copy the set to a server that knows them, or to a disk"
                )
            return _body(answer, deadline)
    except urllib.error.HTTPError as error:
        if error.code in (403, 404, 410):
            raise FileNotFoundError(url) from error
        if error.code < 500 and error.code not in (408, 429):
            raise StorageError(f"{url}: the server refuses with status {error.code}") from error
        raise OSError(f"status {error.code}") from error
    except ValueError as error:
        raise OSError(str(error)) from error


def _body(answer: Any, deadline: float) -> bytes:
    chunks = []
    while chunk := answer.read(_CHUNK):
        chunks.append(chunk)
        if time.monotonic() > deadline:
            raise TimeoutError("the answer took longer than the timeout")
    return b"".join(chunks)
