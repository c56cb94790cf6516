"""Read byte ranges by HTTP with urllib3, which keeps connections open and limits response sizes.

fsspec's HTTP reader fetches the complete object when a server ignores ranges, which would be a shard for every block.
"""

import contextlib
import os
import re
import time
import urllib.request
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http.client import RemoteDisconnected
from typing import Final, TypeAlias
from urllib.parse import unquote

from urllib3 import PoolManager, ProxyManager, Retry, make_headers
from urllib3.exceptions import HTTPError
from urllib3.util import Url, parse_url

from clozeline.errors import StorageError
from clozeline.pipeline.shards.errors import BusyStoreError, ObjectTooShortError, StrayAnswerError
from clozeline.pipeline.shards.object_facts import ObjectFacts

_RETRIES: Final = Retry(total=None, connect=0, read=0, redirect=10, status=0, other=0)
_CONNECTIONS: Final = 256
_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
# Bytes of an error's page that are read so that the connection can be kept.
_ERROR_PAGE: Final = 1 << 16

_Answer: TypeAlias = tuple[int, bytes, Mapping[str, str]]
"""Status, body and headers."""


class HttpRanges:
    """Reader of ranges of one store, with one connection per concurrent thread.

    User and password of a URL are sent as basic authentication; the proxies of the environment are used.
    """

    def __init__(self) -> None:
        self._pools: dict[str | None, PoolManager] = {}
        self._process = os.getpid()

    def __call__(self, url: str, part: tuple[int, int] | None, limit: int, timeout: float) -> bytes:
        """Return a range, or with None the complete object, of which at most `limit` + 1 bytes are read.

        Raises:
            StrayAnswerError: the server sends the complete object instead of the range.
            StorageError: the server refuses.
            ObjectTooShortError: status 416, the object ends before the range begins.
            FileNotFoundError: status 404 or 410.
            PermissionError: status 401 or 403.
            BusyStoreError: status 429 or 503, with the seconds that the server asks to wait.
            OSError: anything else that another try may cure, such as another range.
        """
        status, body, headers = self._ask(url, part, limit, timeout)
        if status == 206 and part is not None:
            rest = _check_range(part, body, headers)
            return body + self(url, rest, rest[1] - rest[0], timeout) if rest else body
        if status == 200 and part is None:
            return body
        if status == 200:
            raise StrayAnswerError(
                f"{url}: the server ignores ranges (status 200 instead of 206), so every block would fetch its whole "
                "shard; copy the set to a server that knows them, or to a disk"
            )
        if status == 416 and part is not None:
            raise ObjectTooShortError(f"{url}: expected bytes at {part[0]}, got status 416: it ends before")
        raise _error_of_status(url, status, headers)

    def facts(self, url: str, timeout: float) -> ObjectFacts:
        """Return the size of an object, and its etag or the time of its last change, by asking for its first byte.

        Raises:
            StrayAnswerError: the server ignores ranges.
            FileNotFoundError, StorageError, OSError: as for a range.
        """
        status, _, headers = self._ask(url, (0, 1), 1, timeout)
        version = headers.get("ETag") or headers.get("Last-Modified") or ""
        size = headers.get("Content-Range", "").rpartition("/")[2]
        if status in (206, 416) and size.isdigit():
            return ObjectFacts(int(size), version)
        if status == 200 and headers.get("Content-Length") == "0":
            return ObjectFacts(0, version)
        if status in (200, 206, 416):
            raise StrayAnswerError(f"{url}: the server ignores ranges, or does not say how long the file is")
        raise _error_of_status(url, status, headers)

    def close(self) -> None:
        """Close idle connections; a later request opens a new one."""
        for pool in self._pools.values():
            pool.clear()

    def _ask(self, url: str, part: tuple[int, int] | None, limit: int, timeout: float) -> _Answer:
        """Return status, body and headers, after one further try if the server had closed an idle connection."""
        try:
            try:
                return self._answer(url, part, limit, timeout)
            except HTTPError as error:
                if not isinstance(_root(error), RemoteDisconnected):
                    raise
                return self._answer(url, part, limit, timeout)
        except (HTTPError, ValueError) as error:
            root = _root(error)
            raise OSError(f"{type(root).__name__}: {root}") from error

    def _answer(self, url: str, part: tuple[int, int] | None, limit: int, timeout: float) -> _Answer:
        address = parse_url(url)
        headers = {"Accept-Encoding": "identity"}
        if address.auth is not None:
            headers |= make_headers(basic_auth=unquote(address.auth))
        if part is not None:
            headers["Range"] = f"bytes={part[0]}-{part[1] - 1}"
        answer = self._pool(address).request(
            "GET", address._replace(auth=None).url, headers=headers, timeout=timeout, retries=_RETRIES,
            preload_content=False,
        )  # fmt: skip
        try:
            if answer.status == (200 if part is None else 206):
                body = answer.read(limit + 1, decode_content=False)
                if len(body) <= limit:
                    answer.read(1)  # the end, or the error of a connection that was cut
                return answer.status, body, answer.headers
            if answer.status != 200:  # a complete object may be long: keeping its connection is not worth reading it
                answer.read(_ERROR_PAGE, decode_content=False)
            return answer.status, b"", answer.headers
        finally:
            answer.close() if answer.length_remaining else answer.release_conn()

    def _pool(self, address: Url) -> PoolManager:
        if self._process != os.getpid():  # the connections that a fork copied are in use by the other process
            self._pools, self._process = {}, os.getpid()
        proxy = urllib.request.getproxies().get(address.scheme or "")
        if proxy is None or urllib.request.proxy_bypass(address.host or ""):
            return self._pools.setdefault(None, PoolManager(maxsize=_CONNECTIONS))
        at = parse_url(proxy if "://" in proxy else f"http://{proxy}")
        login = make_headers(proxy_basic_auth=unquote(at.auth)) if at.auth else None
        pool = ProxyManager(at._replace(auth=None).url, proxy_headers=login, maxsize=_CONNECTIONS)
        return self._pools.setdefault(proxy, pool)


def _check_range(part: tuple[int, int], body: bytes, headers: Mapping[str, str]) -> tuple[int, int] | None:
    """Return what is left to ask for of a range, None if nothing is; OSError if the answer is of another one."""
    said = headers.get("Content-Range", "")
    found = _CONTENT_RANGE.match(said)
    if found is None or int(found[1]) != part[0]:
        raise OSError(f"asked for bytes from {part[0]}, got {said or 'an answer without its range'}")
    start = part[0] + len(body)
    ends = found[3] != "*" and start >= int(found[3])  # the object itself is shorter
    return (start, part[1]) if body and start < part[1] and not ends else None


def _error_of_status(url: str, status: int, headers: Mapping[str, str]) -> Exception:
    if status in (404, 410):
        return FileNotFoundError(url)
    if status in (401, 403):
        return PermissionError(f"status {status}")
    if status in (429, 503):
        return BusyStoreError(f"status {status}", _read_seconds(headers.get("Retry-After", "")))
    if status < 500 and status not in (408, 429):
        return StorageError(f"{url}: the server refuses with status {status}")
    return OSError(f"status {status}")


def _read_seconds(text: str) -> float:
    """Return the seconds of a Retry-After: a number, or a date; 0 without one."""
    if text.strip().isdecimal():
        return float(text)
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return 0.0


def _root(error: BaseException) -> BaseException:
    while inner := error.__cause__ or next((part for part in error.args if isinstance(part, BaseException)), None):
        error = inner
    return error
