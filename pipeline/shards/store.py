"""Read and write objects of stores and web servers by fsspec, with retries and exact ranges.

Keys are used byte for byte: a URL is never treated as a local path, which would fold `//`.
"""

import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
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
    option_error,
)

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 10.0
_LONGEST_WAIT_S: Final = 300.0
"""Most seconds that a request waits in total because the store asks for it."""
_LOG: Final = logging.getLogger(__name__)
_ASCII_URL: Final = re.compile(r"[!-~]*")
_NAMES_PER_REQUEST: Final = 1000
"""Names on one page of a store's listing."""
_LISTING_REQUESTS: Final = 100
"""Requests allowed for a listing whose number of objects is unknown."""
LARGEST_REQUEST: Final = 64 << 20
"""Most bytes of one request, so that its deadline suits any network."""

Range: TypeAlias = tuple[int, int]
"""First byte of a range, and first byte after it."""

# Keys by which file systems report a hash or version of the content, then the time of its last
# change.
_VERSION_HEADERS: Final = (
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
    """Size of an object, and its etag or time as version; "" if the store has neither."""

    size: int
    version: str


def parse_properties(info: Mapping[str, Any]) -> ObjectProperties:
    """Return size and version from an entry as fsspec's file systems describe it."""
    version = next((value for name in _VERSION_HEADERS if (value := info.get(name))), "")
    return ObjectProperties(
        int(info["size"] or 0),
        version.isoformat() if isinstance(version, datetime) else str(version),
    )


class RemoteStore:
    """Reads and writes the objects of one store, by URL, from any thread.

    Failed requests are repeated after a random pause that doubles on average (full jitter), so that
    ranks which failed together do not retry together. Errors that no retry can cure, such as a
    missing object, are raised at once.
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
        """Read exactly this range of an object; short answers are continued by further requests."""
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
        """Return size and version of an object; StorageError if it is missing or a folder."""
        self._system().invalidate_cache()

        try:
            info = self._ask(url, "info")
        except ObjectRefusedError:
            # S3 gives no reason in answer to HEAD, but it does for a range
            self._ask(url, "cat_file", start=0, end=1)
            raise

        if info["type"] != "file":
            raise ObjectMissingError(f"{url}: expected an object, got a folder")
        if info["size"] is None:
            raise StorageError(
                f"{url}: the server does not report the size of the file; download it, and give "
                "its path"
            )

        return parse_properties(info)

    def sizes(self, url: str, expected: int) -> dict[str, int] | None:
        """Return the sizes of all objects in a folder (about `expected`).

        None if it cannot be listed.
        """
        if self.is_web:
            return None
        self._system().invalidate_cache()

        try:
            entries = self._ask(url, "ls", requests=1 + expected // _NAMES_PER_REQUEST, detail=True)
        except ObjectMissingError:
            return {}

        return {
            entry["name"].rsplit("/", 1)[-1]: int(entry["size"])
            for entry in entries
            if entry["type"] == "file"
        }

    def matches(self, folder: str, pattern: str) -> dict[str, ObjectProperties]:
        """Return the objects below a folder that match a pattern, by name.

        Raises:
            ConfigurationError: the store cannot list objects.


        All keys below the folder are listed and matched here, because a walk through "folders"
        misses keys with `//`.
        """
        url = f"{folder}/{pattern}"

        if self.is_web:
            raise ConfigurationError(
                f"{url}: a web server cannot list its files, so patterns do not work; name each "
                "file, as in input=[URL, URL]"
            )

        from fsspec.utils import glob_translate

        path = self._path(url)
        system = self._system()
        system.invalidate_cache()
        root = path.removesuffix(pattern)
        # `**` also matches a folder with an empty name
        expression = glob_translate(path).replace("(?:.+/)?", "(?:.*/)?")
        match = re.compile(expression).match
        entries = self._ask(folder, "find", requests=_LISTING_REQUESTS, detail=True)
        listed = {
            key.removeprefix(root): parse_properties(info)
            for key, info in entries.items()
            if info["type"] == "file" and match(key)
        }

        # some stores report other versions in lists than for single objects
        first = next(iter(listed), None)
        if first is not None and self.properties(f"{folder}/{first}") != listed[first]:
            listed = {name: self.properties(f"{folder}/{name}") for name in listed}
        return listed

    def close(self) -> None:
        """Close idle connections; the next request opens a new one."""
        self._opened = None

    def _system(self) -> Any:
        """Return the file system of this process.

        Connections that a fork copied belong to the parent.
        """
        if self._opened is None or self._process != os.getpid():
            self._opened = open_file_system(self._url, self.options.fsspec)
            self._process = os.getpid()
        return self._opened

    def _path(self, url: str) -> str:
        """Return a URL as its file system names it.

        Only invalid characters of web addresses are escaped.
        """
        if self.is_web and not _ASCII_URL.fullmatch(url):
            from yarl import URL

            return str(URL(url))
        return str(self._system()._strip_protocol(url))

    def _deadline(self, requests: int) -> dict[str, float]:
        """Return the timeout option for asynchronous file systems."""
        return {"timeout": requests * self.options.timeout_s} if self._system().async_impl else {}

    def _ask(
        self, url: str, method: str, *, requests: int = 1, limit: int | None = None, **options: Any
    ) -> Any:
        """Call a method of the file system, with retries; answers over `limit` bytes are errors."""

        def request() -> object:
            answer = getattr(self._system(), method)(
                self._path(url), **options, **self._deadline(requests)
            )
            if limit is not None and len(answer) > limit:
                raise StorageError(f"expected at most {limit} bytes, got {len(answer)}")
            if limit and not answer:
                raise ObjectTooShortError(f"{url}: the object ends before the range")
            if limit:
                with self._lock:
                    self.bytes += len(answer)
            return answer

        return self._retry(url, request)

    def _retry(self, url: str, request: Callable[[], Any]) -> Any:
        attempt = 0
        waited = 0.0

        while True:
            with self._lock:
                self.requests += 1
                self.retries += attempt > 0 or waited > 0

            try:
                return request()
            except Exception as error:  # each package of a store has other errors
                answer = answer_of(error)
                # fsspec reports a missing file, whatever ended its request
                cause = error.__cause__ or error
                if self.requests == 1 and (wrong := option_error(url, self.options.fsspec, cause)):
                    raise wrong from error
                words = redact_text(answer.words) or f"{type(cause).__name__}: {cause}".rstrip(": ")
                if (final := final_error(url, error, answer.status, words)) is not None:
                    raise final from error
                if seconds := answer.seconds:
                    if (remaining := _LONGEST_WAIT_S - waited) < seconds:
                        raise StorageError(
                            f"{url}: the store asks to wait {seconds:.0f} s ({words}), but only "
                            f"{remaining:.0f} s of {_LONGEST_WAIT_S:.0f} s remain; run again later"
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
