"""Connections to a store: kept from one request to the next, and replaced when the server has closed them."""

from __future__ import annotations

import base64
import gc
import threading
from http.server import BaseHTTPRequestHandler

import pytest
from urllib3.connection import HTTPConnection

from clozeline.errors import StorageError
from clozeline.pipeline.shards import ShardSet, StoreOptions, open_shards
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
        with pytest.raises(StorageError, match=r"^http://\*\*\*@127.*no right to read it") as caught:
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
