"""Ranges by HTTP, over connections that stay open."""

from __future__ import annotations

import base64
import http.client
import os
import urllib.request
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Final, TypeAlias
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from pipeline.errors import StorageError
from pipeline.shards.errors import ObjectTooShortError, StrayAnswerError

__all__ = ["HttpRanges"]

_AS_TYPED: Final = "%/:?#[]@!$&'()*+,;=~"
"""Characters of a URL that stay as typed; spaces and letters of other alphabets are quoted."""
_MOVED: Final = (301, 302, 303, 307, 308)
_LONGEST_CHAIN: Final = 10
_REST: Final = 1 << 16
"""Bytes of an error's page that are read so that the connection can be kept."""

Connection: TypeAlias = http.client.HTTPConnection
Idle: TypeAlias = deque[tuple[str, Connection]]


class HttpRanges:
    """Reads ranges of one store, with one connection for each thread that asks at the same time.

    User and password of a URL are sent as basic authentication; the proxies of the environment are used.
    """

    def __init__(self) -> None:
        self._idle: Idle = deque()
        self._process = os.getpid()
        weakref.finalize(self, _close, self._idle)

    def __call__(self, url: str, part: tuple[int, int] | None, limit: int, timeout: float) -> bytes:
        """Return a range, or with None the whole object, of which at most `limit` + 1 bytes are read.

        Raises:
            StrayAnswerError: the server sends the whole object instead of the range.
            StorageError: the server refuses.
            ObjectTooShortError: status 416, the object ends before the range begins.
            FileNotFoundError: status 403, 404 or 410.
            OSError: anything that may be better the next time.
        """
        place = url
        try:
            for _ in range(_LONGEST_CHAIN):
                status, body = self._answer(urlsplit(quote(place, safe=_AS_TYPED)), part, limit, timeout)
                if status not in _MOVED:
                    break
                place = urljoin(place, body.decode("latin-1"))
        except (ValueError, http.client.HTTPException) as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        _check_status(url, status, part)
        return body

    def close(self) -> None:
        """Close the connections that wait for a next request; such a request opens a new one."""
        _close(self._idle)

    def _answer(
        self, place: SplitResult, part: tuple[int, int] | None, limit: int, timeout: float
    ) -> tuple[int, bytes]:
        """Return the status, and the bytes or the address that comes with it."""
        headers = {**_authorization(place, "Authorization"), "Accept-Encoding": "identity"}
        if part is not None:
            headers["Range"] = f"bytes={part[0]}-{part[1] - 1}"
        selector = (place.path or "/") + (f"?{place.query}" if place.query else "")
        if (proxy := _proxy(place)) is not None and place.scheme == "http":
            host = place.netloc.rpartition("@")[2]
            selector, headers = f"http://{host}{selector}", headers | _authorization(proxy, "Proxy-Authorization")
        for connection, reused in self._connections(place, proxy, timeout):
            kept = False
            try:
                connection.request("GET", selector, headers=headers)
                answer = connection.getresponse()
                body = _body(answer, part, limit)
                kept = answer.isclosed() and not answer.will_close
            except ConnectionError:
                if not reused:  # else the server has closed it meanwhile
                    raise
                continue
            finally:
                if kept:
                    self._idle.append((_name(place), connection))
                else:
                    connection.close()
            return answer.status, body
        raise AssertionError("unreachable")

    def _connections(
        self, place: SplitResult, proxy: SplitResult | None, timeout: float
    ) -> Iterator[tuple[Connection, bool]]:
        """Yield connections to a host and whether they were used before: those that are open, then a new one."""
        if self._process != os.getpid():  # what a fork copied is in use by the other process
            self.close()
            self._process = os.getpid()
        while self._idle:
            try:
                name, connection = self._idle.pop()
            except IndexError:  # another thread took the last one
                break
            if name == _name(place):
                yield connection, True
            else:
                connection.close()
        kind = http.client.HTTPSConnection if place.scheme == "https" else Connection
        if proxy is None:
            yield kind(place.hostname or "", place.port, timeout=timeout), False
            return
        connection = kind(proxy.hostname or "", proxy.port or 80, timeout=timeout)
        if place.scheme == "https":
            connection.set_tunnel(place.hostname or "", place.port, _authorization(proxy, "Proxy-Authorization"))
        yield connection, False


def _body(answer: http.client.HTTPResponse, part: tuple[int, int] | None, limit: int) -> bytes:
    """Read what an answer holds of use: the object, or where it has moved."""
    if answer.status in _MOVED:
        answer.read(_REST)
        return (answer.getheader("Location") or "").encode("latin-1")
    if answer.status != (200 if part is None else 206):
        if answer.status != 200:  # a whole object may be long: its connection is not worth the reading
            answer.read(_REST)
        return b""
    body = answer.read(limit + 1)
    if len(body) <= limit and answer.length:
        raise OSError(f"the connection was closed {answer.length} bytes before the end")
    if len(body) == limit:
        answer.read(1)  # the end of an answer without a length, which comes by itself
    return body


def _check_status(url: str, status: int, part: tuple[int, int] | None) -> None:
    if status == (200 if part is None else 206):
        return
    if status == 200:
        raise StrayAnswerError(
            f"{url}: the server ignores ranges (status 200 instead of 206), so every block would fetch its whole "
            "shard; copy the set to a server that knows them, or to a disk"
        )
    if status in (401, 403, 404, 410):
        raise FileNotFoundError(url)
    if status == 416 and part is not None:
        raise ObjectTooShortError(f"{url}: expected bytes at {part[0]}, got status 416: it ends before")
    if status < 500 and status not in (408, 429):
        raise StorageError(f"{url}: the server refuses with status {status}")
    raise OSError(f"status {status}")


def _name(place: SplitResult) -> str:
    return f"{place.scheme}://{place.netloc}"


def _authorization(place: SplitResult, header: str) -> dict[str, str]:
    """Return the header of basic authentication; empty for an address without a user."""
    if place.username is None:
        return {}
    pair = f"{unquote(place.username)}:{unquote(place.password or '')}"
    return {header: f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _proxy(place: SplitResult) -> SplitResult | None:
    """Return the proxy that the environment names for an address."""
    proxy = urllib.request.getproxies().get(place.scheme)
    if proxy is None or urllib.request.proxy_bypass(place.hostname or ""):
        return None
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")


def _close(idle: Idle) -> None:
    while idle:
        try:
            idle.pop()[1].close()
        except IndexError:  # another thread closed the last one
            return
