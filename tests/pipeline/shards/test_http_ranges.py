"""Connections to a store: kept from one request to the next, and replaced when the server has closed them."""

from __future__ import annotations

import base64
import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler

import pytest
from urllib3.connection import HTTPConnection

from clozeline.errors import StorageError
from clozeline.pipeline.shards import ShardSet, StoreOptions, open_shards
from clozeline.pipeline.shards.store import RemoteStore
from tests.loopback_site import Site
from tests.shard_server import ShardServer
from tests.shard_sets import uids


def test_all_requests_of_a_thread_take_one_connection(local: ShardSet, server: ShardServer) -> None:
    shards = open_shards(server.url)
    assert uids(shards) == uids(local)
    assert (server.site.connections, len(server.asked)) == (1, 2 + len(shards.index))


def test_threads_at_the_same_time_have_one_each(server: ShardServer) -> None:
    """Each waits for the others' requests at first; later requests take what is open."""
    shards, all_here = open_shards(server.url), threading.Barrier(3)
    first = iter([True] * 3)
    server.hold = lambda name, start: all_here.wait(60) if next(first, False) else None
    threads = [threading.Thread(target=uids, args=(shards,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.site.connections == 3


def test_a_connection_that_was_closed_meanwhile_is_no_failed_try(local: ShardSet, server: ShardServer) -> None:
    shards = open_shards(server.url, options=StoreOptions(retries=0))
    server.faults = ["hang up", "", "hang up"]
    assert uids(shards) == uids(local)
    assert shards.stats()["retries"] == 0
    shards.release()
    server.faults = ["hang up"] * 2
    with pytest.raises(StorageError, match="after 1 tries: RemoteDisconnected"):
        shards.read_block(0)


@pytest.mark.parametrize("by", ["release", "collection"])
def test_connections_end_with_the_set(
    local: ShardSet, server: ShardServer, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """Also where nothing closes them: a socket that only the collector finds is a warning."""
    made: list[HTTPConnection] = []
    real = HTTPConnection.connect

    def connect(self: HTTPConnection) -> None:
        made.append(self)
        real(self)

    monkeypatch.setattr(HTTPConnection, "connect", connect)
    shards = open_shards(server.url)
    assert [connection.sock is None for connection in made] == [False]
    if by == "release":
        shards.release()
        assert uids(shards) == uids(local), "on a new connection"
        assert [connection.sock is None for connection in made] == [True, False]
    del shards
    gc.collect()
    assert {connection.sock for connection in made} == {None}


def test_user_and_password_of_a_url_are_sent() -> None:
    asked = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.headers["Authorization"])
        request.send_error(401)

    site = Site({"/set/manifest.json": answer})
    with site.running():
        url = site.url.replace("//", "//me:p%40ss@")
        with pytest.raises(StorageError, match=r"^http://\*\*\*@127.*the store refuses: status 401") as caught:
            open_shards(f"{url}set")
    assert asked == [f"Basic {base64.b64encode(b'me:p@ss').decode()}"]
    assert "p%40ss" not in str(caught.value)


def test_a_proxy_of_the_environment_is_asked(
    local: ShardSet, server: ShardServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets the whole address; hosts that the environment excepts are asked themselves."""
    proxy = Site({})
    with proxy.running():
        monkeypatch.setenv("http_proxy", proxy.url)
        with pytest.raises(StorageError, match="no such object"):
            open_shards("http://shards.example/set")
        assert proxy.asked == ["http://shards.example/set/manifest.json"]
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert uids(open_shards(server.url)) == uids(local)


CONTENT = bytes(range(256)) * 40


@contextmanager
def ranges(answers: Callable[[int, int], tuple[int, int, dict[str, str]]]) -> Iterator[tuple[RemoteStore, list[str]]]:
    """A server whose answers are ranges of `CONTENT` that a test chooses, and what it was asked for."""
    asked: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.headers["Range"])
        start, end = (int(part) for part in asked[-1].removeprefix("bytes=").split("-"))
        first, stop, headers = answers(start, end + 1)
        body = CONTENT[first:stop]
        request.send_response(int(headers.pop("status", "206")))
        named = {"Content-Range": f"bytes {first}-{stop - 1}/{len(CONTENT)}", "Content-Length": str(len(body))}
        for name, value in (named | headers).items():
            if value:
                request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    site = Site({"/a": answer})
    pauses: list[float] = []
    with site.running():
        store = RemoteStore(site.url.rstrip("/"), StoreOptions(retries=2), pause=pauses.append)
        store.pauses = pauses  # type: ignore[attr-defined]
        yield store, asked


def test_the_rest_of_a_shorter_range_is_asked_for() -> None:
    """Servers may answer with less than a range, as caches do at the ends of their pages."""
    with ranges(lambda start, stop: (start, min(stop, start - start % 100 + 100), {})) as (store, asked):
        assert store.read("a", (250, 777)) == CONTENT[250:777]
        assert asked[0] == "bytes=250-776"
        assert asked[1:] == [f"bytes={at}-776" for at in range(300, 777, 100)]
        assert store.retries == 0


@pytest.mark.parametrize(
    "wrong",
    [lambda start, stop: (start - 100, stop - 100, {}), lambda start, stop: (0, stop - start, {}),
     lambda start, stop: (start, stop, {"Content-Range": ""}), lambda start, stop: (start + 1, stop + 1, {})],
)  # fmt: skip
def test_another_range_is_never_taken_for_the_one_that_was_asked_for(
    wrong: Callable[[int, int], tuple[int, int, dict[str, str]]],
) -> None:
    with ranges(wrong) as (store, asked):
        with pytest.raises(StorageError, match=r"after 3 tries: asked for bytes from 250, got"):
            store.read("a", (250, 777))
        assert len(asked) == 3
    turns = iter([True, False])
    with ranges(lambda start, stop: wrong(start, stop) if next(turns) else (start, stop, {})) as (store, _):
        assert store.read("a", (250, 777)) == CONTENT[250:777]


@pytest.mark.parametrize("status", ["429", "503"])
def test_a_store_that_asks_to_wait_is_waited_for(status: str, caplog: pytest.LogCaptureFixture) -> None:
    busy = iter([{"Retry-After": "7"}, {"Retry-After": formatdate(time.time() + 20, usegmt=True)}])

    def answers(start: int, stop: int) -> tuple[int, int, dict[str, str]]:
        later = next(busy, None)
        return (start, stop, {}) if later is None else (0, 0, {"status": status, "Content-Range": "", **later})

    with ranges(answers) as (store, _):
        assert store.read("a", (250, 777)) == CONTENT[250:777]
        first, second = store.pauses  # type: ignore[attr-defined]
    assert 7 <= first < 8
    assert 18 <= second < 21
    assert caplog.text.count("the store asks to wait") == 2


def test_the_sum_of_waits_has_a_limit() -> None:
    with ranges(lambda start, stop: (0, 0, {"status": "503", "Content-Range": "", "Retry-After": "9999"})) as (
        store,
        _,
    ):
        with pytest.raises(StorageError, match="after 3 tries: status 503"):
            store.read("a", (250, 777))
        assert sum(store.pauses) < 302  # type: ignore[attr-defined]
