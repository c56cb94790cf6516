"""Read shard sets from object stores and web servers by ranges, block by block.

One block is one request for exactly its bytes, because a block is read by one lane of one rank: nothing is fetched
twice in an epoch, and ranks need no coordination. `http(s)` speaks ranges itself; every other scheme is fsspec's, whose
packages for it (s3fs, gcsfs, adlfs, ...) are imported on first use.
"""

import itertools
import logging
import random
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.configuration.home_folder import HOME_EXPANDED
from clozeline.configuration.redaction import redact_text, remember
from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.shards.errors import BusyStoreError, ObjectMissingError, ObjectTooShortError, StrayAnswerError
from clozeline.pipeline.shards.fsspec_ranges import FsspecRanges
from clozeline.pipeline.shards.object_facts import ObjectFacts

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 10.0
_LONGEST_WAIT_S: Final = 300.0
"""Seconds that a request waits in all because a store asks for it."""
_LOG: Final = logging.getLogger(__name__)
_URL: Final = re.compile(r"([a-z][a-z0-9+.-]+):/{1,2}(?!/)(.+)", re.IGNORECASE | re.DOTALL)

_FILE: Final = re.compile(r"^file:/+", re.IGNORECASE)
_NAMES_A_REQUEST: Final = 1000  # that is how stores page their listings
LARGEST_REQUEST: Final = 64 << 20
"""Bytes of one request at most, so that its deadline suits the speed of any network."""

T = TypeVar("T")
Range: TypeAlias = tuple[int, int]
"""First byte, and first byte after the range."""


Fetch: TypeAlias = Callable[[str, Range | None, int, float], bytes]
"""Read from one type of store: URL, range (None: the complete object, of which `limit` + 1 bytes may be enough), limit,
and timeout in seconds. It raises OSError if a retry may help."""


def as_url(path: Path | str) -> str | None:
    """`path` as a URL if it begins with a scheme, else None; a `Path` has folded the double slash."""
    match = _URL.fullmatch(str(path))
    if match is None or match[1].lower() == "file":
        return None
    return f"{match[1]}://{match[2]}"


def local_path(path: Path | str) -> Path:
    """Return a file's path, also where it was given as a URL with the scheme `file`."""
    return Path(_FILE.sub("/", str(path)))


@config_class
class StoreOptions:
    """Options for reading a store; local files need none."""

    retries: Annotated[int, Field(ge=0)] = 4
    """further tries after a failed request"""
    timeout_s: Annotated[float, Field(gt=0, le=86400)] = 60.0
    """seconds that one request may take, from the first byte sent to the last one received"""
    cache_dir: Annotated[Path | None, HOME_EXPANDED] = None
    """folder on this node that keeps blocks, shared by its processes; null keeps none"""
    cache_bytes: Annotated[int, Field(ge=1)] = 64 << 30
    """most bytes that it keeps, of all sets; a full cache evicts only what other runs left, so the share of hits is the
    share of the data that fits"""
    fsspec: dict[str, Any] = Field(default_factory=dict)
    """options of fsspec's file system, such as an endpoint; http takes none"""


class RemoteStore:
    """Reader of objects below a URL, with retries.

    Failed requests are repeated after a random pause that doubles on average (full jitter), so that ranks which failed
    together do not come back together. What another try cannot cure fails at once, such as a missing object. An answer
    with more than the range gets one other try, because a server that ignores ranges would send complete shards.
    """

    def __init__(
        self, base: str, options: StoreOptions, fetch: Fetch | None = None, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self.base = base.rstrip("/")
        remember({"fsspec": options.fsspec, "url": base})
        self.options = options
        by_http = self.base.partition(":")[0].lower() in ("http", "https")
        self._fetch = fetch or (_http_ranges() if by_http else FsspecRanges(self.base, options.fsspec))
        self._pause = pause
        self._lock = threading.Lock()
        self.requests = self.retries = self.bytes = 0

    def url(self, name: str) -> str:
        return f"{self.base}/{name}"

    def read(self, name: str, part: Range) -> bytes:
        """Read exactly a range of an object; a very long one by several requests."""
        start, stop = part
        if stop - start <= LARGEST_REQUEST:
            return self._request(name, part, stop - start)
        starts = range(start, stop, LARGEST_REQUEST)
        return b"".join(self.read(name, (first, min(stop, first + LARGEST_REQUEST))) for first in starts)

    def read_whole(self, name: str, limit: int) -> bytes:
        """Read an object of at most `limit` bytes."""
        return self._request(name, None, limit)

    def sizes(self, folder: str, expected: int) -> dict[str, int] | None:
        """List the bytes of every object in a folder (about `expected` objects); None where the store cannot list."""
        url, listing = self.url(folder) if folder else self.base, getattr(self._fetch, "sizes", None)
        return None if listing is None else self._retry(url, lambda: listing(url), 1 + expected // _NAMES_A_REQUEST)

    def facts(self, name: str) -> ObjectFacts:
        """Return the size and the version of an object; StorageError if there is none."""
        url, timeout = self.url(name), self.options.timeout_s
        result: ObjectFacts = self._retry(url, lambda: self._fetch.facts(url, timeout))  # type: ignore[attr-defined]
        return result

    def matches(self, pattern: str) -> dict[str, ObjectFacts]:
        """Return the objects that match a pattern, by name; ConfigurationError where the store cannot list."""
        if (find := getattr(self._fetch, "matches", None)) is None:
            raise ConfigurationError(
                f"{self.url(pattern)}: a web server cannot list its files, so a pattern has no meaning there; name "
                "each file, as in input=[URL, URL]"
            )
        result: dict[str, ObjectFacts] = self._retry(self.url(pattern), lambda: find(self.base, pattern))
        return result

    def require_writable(self) -> None:
        """Raise ConfigurationError if the store takes no files."""
        if not hasattr(self._fetch, "write"):
            raise ConfigurationError(
                f"{self.base}: a web server takes no files; give the URL of a store, or a local folder"
            )

    def write(self, name: str, path: Path) -> None:
        """Copy a local file to an object, with retries; StorageError if the store refuses, or keeps other bytes."""
        url, size = self.url(name), path.stat().st_size
        write = self._fetch.write  # type: ignore[attr-defined]
        try:
            self._retry(url, lambda: write(url, path), 1 + size // LARGEST_REQUEST)
        except StorageError as error:
            raise StorageError(f"{url}: cannot be written ({error.__cause__ or error})") from error
        if (stored := self.facts(name).size) != size:
            raise StorageError(f"{url}: expected {size} bytes after writing it, got {stored}; write it again")

    def remove(self, name: str) -> None:
        """Remove an object."""
        self._fetch.remove(self.url(name))  # type: ignore[attr-defined]

    def close(self) -> None:
        """Close connections that wait for a next request; such a request opens a new one."""
        if (close := getattr(self._fetch, "close", None)) is not None:
            close()

    def _request(self, name: str, part: Range | None, limit: int) -> bytes:
        url, timeout = self.url(name), self.options.timeout_s

        def request() -> bytes:
            content = self._fetch(url, part, limit, timeout)
            if len(content) > limit:
                raise (StorageError if part is None else StrayAnswerError)(
                    f"{url}: expected at most {limit} bytes, got more"
                )
            if part is not None and len(content) < limit:
                raise ObjectTooShortError(f"{url}: expected {limit} bytes at {part[0]}, got {len(content)}")
            return content

        content = self._retry(url, request)
        with self._lock:
            self.bytes += len(content)
        return content

    def _retry(self, url: str, request: Callable[[], T], parts: int = 1) -> T:
        strays, waited = 0, 0.0
        for attempt in itertools.count():
            with self._lock:
                self.requests += 1
                self.retries += attempt > 0
            asked = 0.0
            try:
                return _within(parts * self.options.timeout_s, request)
            except FileNotFoundError as error:
                raise ObjectMissingError(f"{url}: there is no such object") from error
            except PermissionError as error:
                said = redact_text(str(error)) or "no right to read it"
                raise ObjectMissingError(f"{url}: the store refuses: {said}") from error
            except StrayAnswerError:
                strays += 1
                if strays > 1:
                    raise
            except (OSError, ObjectTooShortError) as error:
                if attempt - strays >= self.options.retries:
                    if isinstance(error, ObjectTooShortError):
                        raise
                    raise StorageError(f"{url}: cannot be read after {attempt + 1} tries: {error}") from error
                if isinstance(error, BusyStoreError):
                    asked = min(error.seconds, _LONGEST_WAIT_S - waited)
            if asked > 0:
                _LOG.warning("%s: the store asks to wait: %.0f s", redact_text(url), asked)
                waited += asked
            jitter = random.uniform(0, min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(attempt, 99)))
            self._pause(asked + jitter)
        raise AssertionError("unreachable")


def _within(seconds: float, request: Callable[[], T]) -> T:
    """Return the result of a request, or raise TimeoutError and abandon its thread.

    A socket's timeout does not bound a request, because each byte restarts it; most of fsspec's file systems have no
    timeout.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(request())
        except BaseException as error:  # raised in the thread that waits
            done.set_exception(error)

    threading.Thread(target=run, name="clozeline-request", daemon=True).start()
    wait([done], timeout=seconds)
    if not done.done():
        raise TimeoutError(f"no whole answer within {seconds:g} s")
    return done.result()


def _http_ranges() -> Fetch:
    from clozeline.pipeline.shards.http_ranges import HttpRanges  # urllib3 is for web servers alone

    return HttpRanges()
