"""Perform one HTTP exchange, limited in time and bytes, with the headers exactly as sent and received."""

import gzip
import http.client
import io
import socket
import threading
import urllib.parse
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

_PIECE: Final = 65536


class FetchFailedError(Exception):
    """A request without a usable answer; `reason` is one of the few words that the crawl counts by."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response; `truncated` means that the body was cut at the size limit."""

    url: str
    address: str
    request: tuple[tuple[str, str], ...]
    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    truncated: bool = False

    def header(self, name: str) -> str:
        """Return the first value of a response header, or the empty string."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")

    @property
    def content_type(self) -> str:
        """Media type in lower case, without parameters; empty when the server sent none."""
        return self.header("Content-Type").partition(";")[0].strip().lower()

    @property
    def text(self) -> str:
        """Body as text, for finding links: declared charset or UTF-8; undecodable bytes are replaced."""
        declared = self.header("Content-Type").lower().partition("charset=")[2].partition(";")[0]
        body = self.body
        if self.header("Content-Encoding").lower() == "gzip":  # some servers compress unasked
            try:
                with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
                    body = file.read(8 * len(body) + (16 << 20))
            except (OSError, EOFError, zlib.error):
                body = b""
        try:
            return body.decode(declared.strip(" \"'") or "utf-8", errors="replace")
        except (LookupError, ValueError):  # an unknown charset, or a codec for something other than text
            return body.decode("utf-8", errors="replace")


def fetch(url: str, *, agent: str, timeout: float, page_bytes: int, types: tuple[str, ...]) -> Exchange:
    """Request one normalized URL; redirects are answers like any other.

    `timeout` holds for connecting, and again for the entire exchange. A body longer than `page_bytes` is cut and
    marked; of media types other than `types`, only the headers are read.
    """
    parts = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout)
    late = threading.Event()
    try:
        # the time limit covers request, headers and body
        connection.connect()
        with _time_limit(connection.sock, timeout, late):
            address = str(connection.sock.getpeername()[0])
            request = _send_request(connection, parts, agent)
            response = connection.getresponse()
            headers = tuple(response.getheaders())
            answer = Exchange(url, address, request, response.status, response.reason, headers, b"")
            if response.status == http.HTTPStatus.OK and answer.content_type not in types:
                return answer
            body, truncated = _read_body(response, page_bytes)
            if late.is_set():  # a body without a length ends wherever the connection is cut
                raise TimeoutError
    except (OSError, http.client.HTTPException) as error:
        if late.is_set() or isinstance(error, TimeoutError):
            raise FetchFailedError("timeout", f"{url}: no complete answer within {timeout:g} s") from error
        reason = "connection" if isinstance(error, OSError) else "protocol"
        raise FetchFailedError(reason, f"{url}: {type(error).__name__}: {error}") from error
    finally:
        connection.close()
    return replace(answer, body=body, truncated=truncated)


@contextmanager
def _time_limit(sock: socket.socket, seconds: float, late: threading.Event) -> Iterator[None]:
    """Cut the connection after `seconds`: a socket's own timeout restarts with every byte."""

    def cut() -> None:
        late.set()
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def request_target(url: str) -> str:
    """Return the target of the request line: path and query."""
    parts = urllib.parse.urlsplit(url)
    return parts.path + (f"?{parts.query}" if parts.query else "")


def _send_request(
    connection: http.client.HTTPConnection, parts: urllib.parse.SplitResult, agent: str
) -> tuple[tuple[str, str], ...]:
    headers = (
        ("Host", parts.netloc), ("User-Agent", agent), ("Accept", "text/html,application/xhtml+xml,*/*;q=0.5"),
        ("Accept-Encoding", "identity"), ("Connection", "close"),
    )  # fmt: skip
    connection.putrequest("GET", request_target(parts.geturl()), skip_host=True, skip_accept_encoding=True)
    for name, value in headers:
        connection.putheader(name, value)
    connection.endheaders()
    return headers


def _read_body(response: http.client.HTTPResponse, limit: int) -> tuple[bytes, bool]:
    body = bytearray()
    while len(body) <= limit and (piece := response.read1(_PIECE)):
        body += piece
    if len(body) <= limit and response.length:
        raise http.client.IncompleteRead(bytes(body), response.length)
    return bytes(body[:limit]), len(body) > limit
