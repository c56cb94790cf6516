"""Read and write objects of stores and web servers by fsspec, with retries and exact ranges.

A key is used byte for byte: a URL is never handled as a path of a disk, which would fold `//`.
"""

import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from clozeline.configuration.redaction import redact_text, remember
from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.block_options import StoreOptions
from clozeline.pipeline.shards.file_system import (
    WEB,
    ObjectMissingError,
    ObjectRefusedError,
    ObjectTooShortError,
    answer_of,
    final_error,
    open_file_system,
)

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 10.0
_LONGEST_WAIT_S: Final = 300.0
"""Seconds that a request waits in all because a store asks for it."""
_LOG: Final = logging.getLogger(__name__)
_URL: Final = re.compile(r"([a-z][a-z0-9+.-]+):/{1,2}(?!/)(.+)", re.IGNORECASE | re.DOTALL)
_PLAIN_URL: Final = re.compile(r"[!-~]*")
_FILE: Final = re.compile(r"^file:/+", re.IGNORECASE)
_NAMES_A_REQUEST: Final = 1000  # that is how stores page their listings
_LISTING_REQUESTS: Final = 100  # of a pattern: how many objects there are is not known before
LARGEST_REQUEST: Final = 64 << 20
"""Bytes of one request at most, so that its deadline suits the speed of any network."""

Range: TypeAlias = tuple[int, int]
"""First byte, and first byte after the range."""

# Names that file systems give to a hash or number of the content, then to the time of its last
# change.
_VERSIONS: Final = (
    "ETag",
    "etag",
    "md5Hash",
    "content_md5",
    "generation",
    "VersionId",
    "version_id",
    "blob_id",
    "sha256",
    "LastModified",
    "Last-Modified",
    "last_modified",
    "updated",
    "mtime",
    "modified",
    "created",
)


class ObjectProperties(NamedTuple):
    """Bytes of an object and what tells its content from an earlier one: etag or time, "" where the store has none."""

    size: int
    version: str


def parse_properties(info: Mapping[str, Any]) -> ObjectProperties:
    """Return the facts of an entry as fsspec's file systems describe it."""
    version = next((value for name in _VERSIONS if (value := info.get(name))), "")
    return ObjectProperties(
        int(info["size"] or 0),
        version.isoformat() if isinstance(version, datetime) else str(version),
    )


def as_url(path: Path | str) -> str | None:
    """`path` as a URL if it begins with a scheme, else None; a `Path` has folded the double slash."""
    match = _URL.fullmatch(str(path))
    if match is None or match[1].lower() == "file":
        return None
    return f"{match[1]}://{match[2]}"


def local_path(path: Path | str) -> Path:
    """Return a file's path, also where it was given as a URL with the scheme `file`."""
    return Path(_FILE.sub("/", str(path)))


class RemoteStore:
    """Reader and writer of the objects of one store, by URL, for any thread.

    Failed requests are repeated after a random pause that doubles on average (full jitter), so that
    ranks which failed together do not come back together. What another try cannot cure fails at
    once, such as a missing object.
    """

    def __init__(self, url: str, options: StoreOptions) -> None:
        remember({"fsspec": options.fsspec, "url": url})
        self._url = url
        self.options = options
        self.is_web = url.partition(":")[0].lower() in WEB
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._opened: object = open_file_system(url, options.fsspec)
        self.requests = self.retries = self.bytes = 0

    def read(self, url: str, part: Range) -> bytes:
        """Read exactly a range of an object, by as many requests as it takes; a short answer is continued."""
        (at, stop), pieces = part, list[bytes]()
        while at < stop:
            end = min(stop, at + LARGEST_REQUEST)
            pieces.append(self._ask(url, "cat_file", limit=end - at, start=at, end=end))
            at += len(pieces[-1])
        return b"".join(pieces)

    def read_whole(self, url: str, limit: int) -> bytes:
        """Read an object of at most `limit` bytes by one request."""
        content: bytes = self._ask(url, "cat_file", limit=limit + 1, start=0, end=limit + 1)
        if len(content) > limit:
            raise StorageError(f"{url}: expected at most {limit} bytes, got more")
        return content

    def properties(self, url: str) -> ObjectProperties:
        """Return the size and the version of an object; StorageError if there is none, or it is a folder."""
        self._system().invalidate_cache()
        try:
            info = self._ask(url, "info")
        except ObjectRefusedError:
            self._ask(
                url, "cat_file", start=0, end=1
            )  # S3 answers to HEAD without a word: let it say why
            raise
        if info["type"] != "file":
            raise ObjectMissingError(f"{url}: there is no such object, but a folder")
        if info["size"] is None:
            raise StorageError(
                f"{url}: the server does not say how long the file is; download it, and give its "
                "path"
            )
        return parse_properties(info)

    def sizes(self, url: str, expected: int) -> dict[str, int] | None:
        """List the bytes of every object in a folder (about `expected` objects); None where the store cannot list."""
        if self.is_web:
            return None
        self._system().invalidate_cache()
        try:
            entries = self._ask(url, "ls", requests=1 + expected // _NAMES_A_REQUEST, detail=True)
        except ObjectMissingError:
            return {}
        return {
            entry["name"].rsplit("/", 1)[-1]: int(entry["size"])
            for entry in entries
            if entry["type"] == "file"
        }

    def matches(self, folder: str, pattern: str) -> dict[str, ObjectProperties]:
        """Return the objects below a folder whose names match, by name; ConfigurationError where the store cannot list.

        All keys below the folder are listed and matched here: a walk through "folders" leaves out
        keys with `//`.
        """
        url = f"{folder}/{pattern}"
        if self.is_web:
            raise ConfigurationError(
                f"{url}: a web server cannot list its files, so a pattern has no meaning there; "
                "name each file, as in "
                "input=[URL, URL]"
            )
        from fsspec.utils import glob_translate

        path = self._path(url)
        system = self._system()
        system.invalidate_cache()
        root = path.removesuffix(pattern)
        anywhere = glob_translate(path).replace(
            "(?:.+/)?", "(?:.*/)?"
        )  # `**` is a folder without name, too
        match = re.compile(anywhere).match
        entries = self._ask(folder, "find", requests=_LISTING_REQUESTS, detail=True)
        listed = {
            key: parse_properties(info)
            for key, info in entries.items()
            if info["type"] == "file" and match(key)
        }
        first = next(iter(listed), None)
        if (
            first is not None and parse_properties(system.info(first)) != listed[first]
        ):  # other versions in lists
            listed = {key: parse_properties(system.info(key)) for key in listed}
        return {key.removeprefix(root): facts for key, facts in listed.items()}

    def write(self, url: str, path: Path) -> None:
        """Copy a local file to an object, with retries; StorageError if the store refuses, or keeps other bytes."""
        size = path.stat().st_size
        system = self._system()
        try:
            self._retry(
                url, lambda: system.makedirs(system._parent(self._path(url)), exist_ok=True)
            )
            requests = 1 + size // LARGEST_REQUEST
            self._retry(
                url, lambda: system.put_file(str(path), self._path(url), **self._deadline(requests))
            )
        except StorageError as error:
            raise StorageError(f"{url}: cannot be written ({error.__cause__ or error})") from error
        if (stored := self.properties(url).size) != size:
            raise StorageError(
                f"{url}: expected {size} bytes after writing it, got {stored}; write it again"
            )

    def remove(self, url: str) -> None:
        """Remove an object."""
        self._ask(url, "rm_file")

    def close(self) -> None:
        """Close connections that wait for a next request; such a request opens a new one."""
        self._opened = None

    def _system(self) -> Any:
        """Return the file system of this process: connections that a fork copied are in use by the other process."""
        if self._opened is None or self._process != os.getpid():
            self._opened = open_file_system(self._url, self.options.fsspec)
            self._process = os.getpid()
        return self._opened

    def _path(self, url: str) -> str:
        """Return a URL as its file system names it; what a web address may not hold is escaped, nothing else."""
        if self.is_web and not _PLAIN_URL.fullmatch(url):
            from yarl import URL

            return str(URL(url))
        return str(self._system()._strip_protocol(url))

    def _deadline(self, requests: int) -> dict[str, float]:
        """Return the option of the time in which file systems with a loop of their own must answer."""
        return {"timeout": requests * self.options.timeout_s} if self._system().async_impl else {}

    def _ask(
        self, url: str, method: str, *, requests: int = 1, limit: int | None = None, **options: Any
    ) -> Any:
        """Call a method of the file system, with retries; an answer of more than `limit` bytes is not taken."""

        def request() -> object:
            answer = getattr(self._system(), method)(
                self._path(url), **options, **self._deadline(requests)
            )
            if limit is not None and len(answer) > limit:
                raise StorageError(f"expected at most {limit} bytes, got {len(answer)}")
            if limit and not answer:
                raise ObjectTooShortError(f"{url}: it ends before the range")
            if limit:
                with self._lock:
                    self.bytes += len(answer)
            return answer

        return self._retry(url, request)

    def _retry(self, url: str, request: Callable[[], Any]) -> Any:
        attempt, waited = 0, 0.0
        while True:
            with self._lock:
                self.requests += 1
                self.retries += attempt > 0 or waited > 0
            try:
                return request()
            except Exception as error:  # packages of stores have errors of their own
                answer = answer_of(error)
                cause = (
                    error.__cause__ or error
                )  # fsspec says that no file was found, whatever ended its request
                words = redact_text(answer.words) or f"{type(cause).__name__}: {cause}".rstrip(": ")
                if (final := final_error(url, error, answer.status, words)) is not None:
                    raise final from error
                if seconds := answer.seconds:
                    if (left := _LONGEST_WAIT_S - waited) < seconds:
                        raise StorageError(
                            f"{url}: the store asks to wait {seconds:.0f} s ({words}), of "
                            f"{_LONGEST_WAIT_S:.0f} s that "
                            f"a request may wait {left:.0f} are left; run again later"
                        ) from error
                    _LOG.warning(
                        "%s: the store asks to wait %.0f s (%s)", redact_text(url), seconds, words
                    )
                    waited += seconds
                    time.sleep(seconds)
                elif attempt < self.options.retries:
                    attempt += 1
                elif isinstance(error, ObjectTooShortError):
                    raise
                else:
                    raise StorageError(
                        f"{url}: cannot be read after {attempt + 1} tries: {words}"
                    ) from error
            time.sleep(
                random.uniform(0, min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(attempt, 99)))
            )
