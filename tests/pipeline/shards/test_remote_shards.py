"""Sets behind a URL: the same rows as from a disk, whatever the store does."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import fsspec
import pytest

from pipeline.errors import StorageError
from pipeline.shards import CorruptBlock, ManifestError, ShardSet, StoreOptions, open_shards
from pipeline.shards.block_cache import BlockCache
from pipeline.shards.store import RemoteStore, as_url
from tests.loopback_site import Site
from tests.shard_sets import toy_set


@pytest.fixture
def local(tmp_path: Path) -> ShardSet:
    return toy_set(tmp_path / "local", [20, 17])


@pytest.fixture
def memory(local: ShardSet) -> Iterator[str]:
    """The set in fsspec's store in memory."""
    system, name = fsspec.filesystem("memory"), f"/{uuid.uuid4().hex}"
    for file in local.path.parent.iterdir():
        system.pipe_file(f"{name}/{file.name}", file.read_bytes())
    yield f"memory:/{name}"
    system.rm(name, recursive=True)


def uids(shards: ShardSet) -> list[int]:
    return [uid for block in range(len(shards.index)) for uid in shards.read_block(block).fixed["uid"].tolist()]


class Server:
    """Serves a folder with ranges; `faults` are taken one a request before it behaves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults: list[str] = []
        self.ranges: list[tuple[int, int]] = []
        self.site = Site({f"/set/{file.name}": self._answer(file) for file in folder.iterdir()})

    def _answer(self, file: Path) -> Callable[[BaseHTTPRequestHandler], None]:
        def answer(request: BaseHTTPRequestHandler) -> None:
            content, status = file.read_bytes(), 200
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
            fault = self.faults.pop(0) if asked and self.faults else ""
            if fault == "500":
                request.send_error(500)
                return
            if asked and fault != "ignored":
                start, last = int(asked[1]), int(asked[2])
                self.ranges.append((start, last + 1))
                content, status = content[start : last + 1], 206
            request.send_response(status)
            request.send_header("Content-Length", str(len(content)))
            request.end_headers()
            if fault == "flip":
                content = bytes([content[0] ^ 1]) + content[1:]
            request.wfile.write(content[: len(content) // 2] if fault == "short" else content)

        return answer


@pytest.fixture
def server(local: ShardSet, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr("pipeline.shards.store._FIRST_PAUSE_S", 0.0)
    found = Server(local.path.parent)
    with found.site.running():
        yield found


def test_a_store_in_memory_gives_the_same_rows(local: ShardSet, memory: str) -> None:
    for path in (memory, f"{memory}/manifest.json", Path(memory)):
        shards = open_shards(path)
        assert uids(shards) == uids(local)
        assert shards.digest == local.digest
    assert shards.stats()["requests"] == len(shards.index) + 3, "manifest, index, no quarantine, then one a block"


def test_http_fetches_exactly_the_bytes_of_each_block(local: ShardSet, server: Server) -> None:
    shards = open_shards(f"{server.site.url}set")
    assert uids(shards) == uids(local)
    index = local.index
    wanted = [(int(o), int(o) + int(n)) for o, n in zip(index.offset, index.length, strict=True)]
    assert server.ranges == wanted


@pytest.mark.parametrize("fault", ["500", "short", "flip"])
def test_faults_that_pass_are_not_noticed(local: ShardSet, server: Server, fault: str) -> None:
    shards = open_shards(f"{server.site.url}set")
    server.faults = [fault, "", fault]
    assert uids(shards) == uids(local)
    assert shards.stats()["retries"] == (0 if fault == "flip" else 2)


def test_faults_that_stay_are_told(server: Server) -> None:
    shards = open_shards(f"{server.site.url}set", options=StoreOptions(retries=2))
    server.faults = ["500"] * 3
    with pytest.raises(StorageError, match=r"shard-00000-of-00002.arrow: cannot be read after 3 tries: status 500"):
        shards.read_block(0)
    server.faults = ["flip"] * 2
    with pytest.raises(CorruptBlock, match="xxh3-128") as caught:
        shards.read_block(1)
    assert caught.value.shard.startswith("http://127.0.0.1")


def test_a_server_that_ignores_ranges_is_refused_at_once(server: Server) -> None:
    shards = open_shards(f"{server.site.url}set")
    server.faults = ["ignored"]
    asked = len(server.site.asked)
    with pytest.raises(StorageError, match="status 200 instead of 206"):
        shards.read_block(0)
    assert len(server.site.asked) == asked + 1


def test_what_is_not_there(server: Server, memory: str) -> None:
    with pytest.raises(StorageError, match="no such object"):
        open_shards(f"{server.site.url}nowhere")
    system = fsspec.filesystem("memory")
    shard = next(name for name in system.ls(memory.removeprefix("memory:/"), detail=False) if "shard-00001" in name)
    content = system.cat_file(shard)
    system.pipe_file(shard, content[:-1])
    with pytest.raises(ManifestError, match=f"expected {len(content)} bytes, got {len(content) - 1}"):
        open_shards(memory)
    system.rm(shard)
    with pytest.raises(ManifestError, match="no such file"):
        open_shards(memory)


def test_pauses_double_on_average_and_are_bounded() -> None:
    pauses: list[float] = []

    def stalled(url: str, part: Any, timeout: float) -> bytes:
        assert timeout == 7
        raise TimeoutError("nothing came")

    store = RemoteStore("http://h/x", StoreOptions(retries=12, timeout_s=7), stalled, pauses.append)
    with pytest.raises(StorageError, match="after 13 tries: nothing came"):
        store.read("a", (0, 4))
    assert len(pauses) == 12
    assert all(0 <= pause <= min(10, 0.1 * 2**number) for number, pause in enumerate(pauses))


def test_which_paths_are_urls() -> None:
    assert as_url("s3://bucket/set") == "s3://bucket/set"
    assert as_url(Path("s3://bucket/set")) == "s3://bucket/set"
    assert as_url("/data/set") is None
    assert as_url("file:///data/set") is None
    assert as_url("runs/s3:/x") is None


def test_a_cache_saves_requests_and_a_bad_entry_is_fetched_again(local: ShardSet, memory: str, tmp_path: Path) -> None:
    options = StoreOptions(cache_dir=tmp_path / "cache")
    assert uids(open_shards(memory, options=options)) == uids(local)
    again = open_shards(memory, options=options)
    assert uids(again) == uids(local)
    assert again.stats()["cache_hits"] == len(again.index)
    for entry in (tmp_path / "cache").glob("*/*/*"):
        entry.write_bytes(bytes(entry.stat().st_size))
    third = open_shards(memory, options=options)
    assert uids(third) == uids(local)
    assert uids(third) == uids(local)
    assert third.stats()["cache_hits"] == 2 * len(third.index)
    assert third.stats()["fetched_bytes"] > int(local.index.length.sum())


def test_two_caches_of_one_folder_keep_the_bound(tmp_path: Path) -> None:
    caches = [BlockCache(tmp_path, "set", 300) for _ in range(2)]
    for number in range(40):
        caches[number % 2].put(0, number, bytes([number]) * 100)
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) <= 300
        assert not [path for path in files if path.suffix == ".tmp"]
        assert caches[1 - number % 2].get(0, number) == bytes([number]) * 100
    assert caches[0].evicted + caches[1].evicted == 37


def test_what_was_used_last_is_evicted_last(tmp_path: Path) -> None:
    cache = BlockCache(tmp_path, "set", 300)
    for number in range(3):
        cache.put(0, number, bytes(100))
        os.utime(tmp_path / "set" / "0" / str(number), (number, number))
    assert cache.get(0, 0) is not None
    cache.put(0, 3, bytes(100))
    assert [cache.get(0, number) is not None for number in range(4)] == [True, False, True, True]


def test_a_full_disk_ends_the_caching_only(
    local: ShardSet, memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(self: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    shards = open_shards(memory, options=StoreOptions(cache_dir=tmp_path / "cache"))
    monkeypatch.setattr(Path, "write_bytes", full)
    assert uids(shards) == uids(local)
    assert capsys.readouterr().err.count("no longer cached") == 1
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


READER = """
import os, sys
from pathlib import Path
from pipeline.shards.block_cache import BlockCache
folder, die_after = Path(sys.argv[1]), int(sys.argv[2])
real, calls = Path.replace, 0
def replace(self, target):
    global calls
    calls += 1
    if calls == die_after:
        os._exit(9)
    return real(self, target)
Path.replace = replace
cache = BlockCache(folder, "set", 300)
for number in range(60):
    found = cache.get(0, number % 7)
    assert found is None or found == bytes([number % 7]) * 100, found
    cache.put(0, number % 7, bytes([number % 7]) * 100)
"""


def test_processes_share_a_cache_and_may_be_killed_in_it(tmp_path: Path) -> None:
    """Three blocks of room, two processes at once, kills between writing and renaming: never a wrong byte."""
    for die_after in (1, 5, 0):
        command = [sys.executable, "-c", READER, str(tmp_path)]
        both = [subprocess.Popen([*command, str(n)], stderr=subprocess.PIPE) for n in (die_after, 0)]
        errors = [process.communicate()[1].decode() for process in both]
        assert [process.returncode for process in both] == [9 if die_after else 0, 0], errors
    whole = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".tmp"]
    assert {path.stat().st_size for path in whole} == {100}
    assert len(whole) <= 4, "the bound, and at most what both wrote at the same moment"
