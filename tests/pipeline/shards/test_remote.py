"""Sets behind a URL: the same rows as from a disk, whatever the store does."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from pipeline.errors import ConfigurationError, StorageError
from pipeline.shards import DamagedBlock, ManifestError, ShardSet, StoreOptions, open_shards
from pipeline.shards.block_cache import BlockCache
from pipeline.shards.remote import _once_a_node
from pipeline.shards.store import RemoteStore, as_url
from tests.shard_server import ShardServer
from tests.shard_sets import toy_set


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.shards.store._FIRST_PAUSE_S", 0.0)


@pytest.fixture
def local(tmp_path: Path) -> ShardSet:
    return toy_set(tmp_path / "local", [20, 17])


@pytest.fixture
def memory(local: ShardSet) -> Iterator[str]:
    """The set in fsspec's store in memory."""
    name = upload(local)
    yield f"memory:/{name}"
    fsspec.filesystem("memory").rm(name, recursive=True)


def upload(shards: ShardSet) -> str:
    name = f"/{uuid.uuid4().hex}"
    for file in shards.path.parent.iterdir():
        fsspec.filesystem("memory").pipe_file(f"{name}/{file.name}", file.read_bytes())
    return name


@pytest.fixture
def server(local: ShardSet) -> Iterator[ShardServer]:
    found = ShardServer(local.path.parent)
    with found.site.running():
        yield found
        found.released.set()


def uids(shards: ShardSet) -> list[int]:
    return [uid for block in range(len(shards.index)) for uid in shards.read_block(block).fixed["uid"].tolist()]


def test_a_store_in_memory_gives_the_same_rows(local: ShardSet, memory: str) -> None:
    for path in (memory, f"{memory}/manifest.json", Path(memory)):
        shards = open_shards(path)
        assert uids(shards) == uids(local)
        assert shards.digest == local.digest
    assert shards.stats()["requests"] == len(shards.index) + 4, "manifest, index, quarantine, list; one a block"


def test_a_url_of_files_is_their_path(local: ShardSet) -> None:
    folder = local.path.parent
    for path in (f"file://{folder}", Path(f"file://{folder}"), f"file:{folder}/manifest.json"):
        assert open_shards(path).path == local.path


def test_http_fetches_exactly_the_bytes_of_each_block(local: ShardSet, server: ShardServer) -> None:
    shards = open_shards(server.url)
    assert server.ranges == [], "manifest and index are fetched whole"
    assert uids(shards) == uids(local)
    index = local.index
    wanted = [(int(o), int(o) + int(n)) for o, n in zip(index.offset, index.length, strict=True)]
    assert server.ranges == wanted


@pytest.mark.parametrize("fault", ["500", "503", "cut", "garbage", "short", "flip", "moved"])
def test_faults_that_pass_are_not_noticed(local: ShardSet, server: ShardServer, fault: str) -> None:
    shards = open_shards(server.url)
    server.faults = [fault, "", fault]
    assert uids(shards) == uids(local)
    assert shards.stats()["retries"] == (0 if fault in ("flip", "moved") else 2)


@pytest.mark.parametrize("fault", ["500", "cut", "garbage", "moved"])
def test_faults_while_opening_are_not_noticed(local: ShardSet, server: ShardServer, fault: str) -> None:
    """A manifest cut off is a failed request, not a wrong manifest."""
    server.faults = [fault, "", fault]
    assert uids(open_shards(server.url)) == uids(local)


def test_faults_that_stay_are_told(server: ShardServer) -> None:
    shards = open_shards(server.url, options=StoreOptions(retries=2))
    server.faults = ["500"] * 3
    with pytest.raises(
        StorageError, match=r"shard-00000-of-00002.arrow: cannot be read after 3 tries: status 500 \(block 0\)"
    ):
        shards.read_block(0)
    server.faults = ["flip"] * 2
    with pytest.raises(DamagedBlock, match="xxh3-128") as caught:
        shards.read_block(1)
    assert caught.value.shard == f"{server.url}/shard-00000-of-00002.arrow"
    server.faults = ["long"]
    with pytest.raises(StorageError, match="at most"):
        shards.read_block(0)


def test_a_server_that_ignores_ranges_is_refused_at_once(server: ShardServer) -> None:
    shards = open_shards(server.url)
    server.faults = ["200"]
    asked = len(server.asked)
    with pytest.raises(StorageError, match="status 200 instead of 206"):
        shards.read_block(0)
    assert len(server.asked) == asked + 1


@pytest.mark.parametrize("end", ["inside the block", "before it"])
def test_an_object_that_has_become_shorter_is_a_corrupt_block(local: ShardSet, server: ShardServer, end: str) -> None:
    """Like a truncated file: `mask` may go on without it."""
    shards = open_shards(server.url, options=StoreOptions(retries=1))
    path = local.shard_path(1)
    at = int(local.index.offset[-1])
    path.write_bytes(path.read_bytes()[: at + (9 if end == "inside the block" else -100)])
    server.faults = ["", ""] if end == "inside the block" else ["416", "416"]
    with pytest.raises(DamagedBlock, match=f"bytes at {at}"):
        shards.read_block(len(shards.index) - 1)


def test_a_set_that_was_made_anew_meanwhile_is_noticed(local: ShardSet, server: ShardServer) -> None:
    shards = open_shards(server.url)
    before = uids(shards)
    toy_set(local.path.parent, [17, 20], row_length=9)
    with pytest.raises(DamagedBlock):
        uids(shards)
    assert uids(open_shards(server.url)) == before, "the same rows in other blocks"
    fresh = open_shards(server.url)
    assert fresh.digest != shards.digest


def test_what_is_not_there(server: ShardServer, memory: str) -> None:
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
    with pytest.raises(ConfigurationError, match="no reader for this kind of store"):
        open_shards("nonsense://bucket/set")


def test_only_the_first_process_of_a_run_lists_the_shards(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million names are a thousand requests; all processes would find the same."""
    monkeypatch.setenv("RANK", "1")
    assert open_shards(memory).stats()["requests"] == 3
    monkeypatch.setenv("RANK", "0")
    assert open_shards(memory).stats()["requests"] == 4


def test_a_page_in_place_of_a_manifest_is_told_with_its_url(memory: str) -> None:
    fsspec.filesystem("memory").pipe_file(f"{memory.removeprefix('memory:/')}/manifest.json", b"<html>log in</html>")
    with pytest.raises(ManifestError, match=f"^{memory}/manifest.json: not a manifest"):
        open_shards(memory)


def test_verify_reads_remote_shards_whole(local: ShardSet, memory: str) -> None:
    open_shards(memory, verify="shard")
    name = f"{memory.removeprefix('memory:/')}/{local.manifest.shards[1].path}"
    system = fsspec.filesystem("memory")
    system.pipe_file(name, b"X" + system.cat_file(name)[1:])
    assert uids(open_shards(memory)) == uids(local), "no block has this byte"
    with pytest.raises(ManifestError, match=r"shard-00001-of-00002.arrow: expected SHA-256"):
        open_shards(memory, verify="shard")


def test_opening_leaves_no_files(memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    shards = open_shards(memory)
    assert (str(shards.path), list((tmp_path / "temporary").iterdir())) == (f"{Path(memory)}/manifest.json", [])
    with pytest.raises(StorageError):
        open_shards(f"{memory}/nowhere")
    assert not list((tmp_path / "temporary").iterdir())


def test_a_large_index_is_fetched_in_pieces(local: ShardSet, memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the deadline of one request suits any size."""
    for module in ("store", "remote", "reader"):
        monkeypatch.setattr(f"pipeline.shards.{module}.LARGEST_REQUEST", 512)
    shards = open_shards(memory, verify="shard")
    assert uids(shards) == uids(local)
    total = sum(shard.bytes for shard in local.manifest.shards) + local.manifest.index.bytes
    assert shards.stats()["requests"] > total / 512


def test_a_list_of_shards_beside_the_manifest_comes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.shards.manifest_writer._INLINE_LIMIT", 1)
    local = toy_set(tmp_path / "local", [9, 4, 7])
    url, options = f"memory:/{upload(local)}", StoreOptions(cache_dir=tmp_path / "cache")
    for requests in (5, 3):
        shards = open_shards(url, options=options)
        assert shards.stats()["requests"] == requests, "manifest, quarantine, listing; at first also list and index"
        assert uids(shards) == uids(local)


def test_pauses_double_on_average_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def stalled(url: str, part: Any, most: int, timeout: float) -> bytes:
        assert (most, timeout) == (4, 7)
        raise TimeoutError("nothing came")

    monkeypatch.setattr("pipeline.shards.store._FIRST_PAUSE_S", 0.1)
    store = RemoteStore("http://h/x", StoreOptions(retries=2000, timeout_s=7), stalled, pauses.append)
    with pytest.raises(StorageError, match="after 2001 tries: nothing came"):
        store.read("a", (0, 4))
    assert len(pauses) == 2000
    assert all(0 <= pause <= 0.1 * 2**number for number, pause in enumerate(pauses[:7]))
    assert max(pauses) <= 10
    assert sum(pauses[7:]) / len(pauses[7:]) == pytest.approx(5, rel=0.1), "at random, up to the longest pause"


@pytest.fixture
def stalled(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """fsspec's store in memory does not answer until the event."""
    answer = threading.Event()
    for name in ("cat_file", "ls"):
        real = getattr(MemoryFileSystem, name)

        def waiting(*arguments: Any, real: Any = real, **options: Any) -> Any:
            assert answer.wait(60)
            return real(*arguments, **options)

        monkeypatch.setattr(MemoryFileSystem, name, waiting)
    yield answer
    answer.set()
    for thread in threading.enumerate():
        if thread.name == "clozeline-request":
            thread.join()


def test_a_store_that_never_answers_is_given_up(memory: str, stalled: threading.Event) -> None:
    """No file system of fsspec needs a deadline of its own; each try has one, listings too."""
    options = StoreOptions(retries=2, timeout_s=0.01)
    with pytest.raises(StorageError, match=r"manifest.json: cannot be read after 3 tries: no whole answer within 0.01"):
        open_shards(memory, options=options)
    with pytest.raises(StorageError, match="cannot be read after 3 tries: no whole answer"):
        RemoteStore(memory, options).sizes("", 1)
    stalled.set()
    assert len(uids(open_shards(memory))) == 37


@pytest.mark.parametrize("fault", ["stall", "drip"])
def test_a_body_that_does_not_end_is_given_up(local: ShardSet, server: ShardServer, fault: str) -> None:
    """Each byte restarts the clock of a socket, but not that of a request."""
    shards = open_shards(server.url, options=StoreOptions(retries=1, timeout_s=0.5))
    server.faults = [fault]
    assert shards.read_block(0).fixed["uid"].tolist() == local.read_block(0).fixed["uid"].tolist()
    assert shards.stats()["retries"] == 1


def test_errors_of_any_kind_are_failed_tries(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages for stores raise what they like; a missing right is as final as a missing object."""
    shards = open_shards(memory, options=StoreOptions(retries=1))
    raised: list[Exception] = [RuntimeError("no token"), PermissionError("403"), RuntimeError("a"), RuntimeError("b")]
    real = MemoryFileSystem.cat_file

    def failing(self: MemoryFileSystem, *arguments: Any, **options: Any) -> Any:
        if raised:
            raise raised.pop(0)
        return real(self, *arguments, **options)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", failing)
    with pytest.raises(StorageError, match="no right to read it"):
        shards.read_block(0)
    with pytest.raises(StorageError, match="after 2 tries: RuntimeError: b"):
        shards.read_block(0)
    shards.read_block(0)


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
    assert again.stats()["requests"] == 3, "manifest, quarantine, list"
    for number, entry in enumerate((tmp_path / "cache").glob("clozeline/*/*/*")):
        entry.write_bytes(bytes(entry.stat().st_size - number % 2))
    third = open_shards(memory, options=options)
    assert uids(third) == uids(local)
    assert third.stats()["cache_hits"] == 0
    assert uids(third) == uids(local)
    assert third.stats()["cache_hits"] == len(third.index)
    assert third.stats()["fetched_bytes"] > int(local.index.length.sum())


def test_bad_entries_of_a_cache_that_cannot_be_written_do_no_harm(
    local: ShardSet, memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = StoreOptions(cache_dir=tmp_path / "cache")
    uids(open_shards(memory, options=options))
    for entry in (tmp_path / "cache").glob("clozeline/*/*/*"):
        entry.write_bytes(bytes(entry.stat().st_size))
    for name in ("put", "drop"):
        monkeypatch.setattr(BlockCache, name, lambda *arguments: None)
    assert uids(open_shards(memory, options=options)) == uids(local)


def test_a_wrong_transfer_is_not_kept(local: ShardSet, server: ShardServer, tmp_path: Path) -> None:
    shards = open_shards(server.url, options=StoreOptions(cache_dir=tmp_path))
    server.faults = ["flip", "flip"]
    with pytest.raises(DamagedBlock):
        shards.read_block(0)
    assert not list(tmp_path.glob(f"clozeline/{shards.digest[:16]}/*/*"))
    assert shards.read_block(0).fixed["uid"].tolist() == local.read_block(0).fixed["uid"].tolist()
    assert len(list(tmp_path.glob(f"clozeline/{shards.digest[:16]}/*/*"))) == 1


def test_a_full_disk_ends_the_caching_only(
    local: ShardSet, memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = open_shards(memory, options=StoreOptions(cache_dir=tmp_path / "cache"))

    def full(self: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert uids(shards) == uids(local)
    assert capsys.readouterr().err.count("no longer cached") == 1


def test_later_processes_of_a_node_wait_for_the_first_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = StoreOptions(cache_dir=tmp_path, timeout_s=1)
    content = [b"one index", b"another"]
    digests = [hashlib.sha256(index).hexdigest() for index in content]
    fetched: list[bytes] = []
    pauses: list[float] = []

    def fetch() -> bytes:
        fetched.append(content[len(fetched)])
        return fetched[-1]

    def others_are_late(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            monkeypatch.setenv("LOCAL_RANK", "0")
            _once_a_node(options, digests[0], fetch, 1, pauses.append)
            monkeypatch.setenv("LOCAL_RANK", "3")

    monkeypatch.setenv("LOCAL_RANK", "3")
    assert _once_a_node(options, digests[0], fetch, 1, others_are_late) == content[0]
    assert (len(fetched), len(pauses)) == (1, 4)
    pauses.clear()
    assert _once_a_node(options, digests[1], fetch, 2, pauses.append) == content[1]
    assert (len(fetched), sum(pauses)) == (2, pytest.approx(2)), "no longer than two requests may take"


def test_a_digest_that_is_none_leads_nowhere(tmp_path: Path) -> None:
    """It would be the name of a file; a manifest from elsewhere may say anything."""
    secret = tmp_path / "cache" / "secret" / "whole"
    secret.parent.mkdir(parents=True)
    (tmp_path / "cache" / "clozeline" / "index").mkdir(parents=True)
    secret.write_bytes(b"of others")
    os.utime(secret, (1, 1))
    options = StoreOptions(cache_dir=tmp_path / "cache")
    assert _once_a_node(options, "../../secret", lambda: b"fetched") == b"fetched"
    assert secret.stat().st_mtime == 1, "not even looked at"
