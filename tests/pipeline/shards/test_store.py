from pathlib import Path
from types import SimpleNamespace

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import StorageError
from clozeline.pipeline.shards import DamagedBlock, StoreOptions, open_shards
from clozeline.pipeline.shards.store import RemoteStore, as_url
from tests.shard_sets import uids


def test_a_url_of_files_is_their_path(local):
    folder = local.path.parent
    for path in (f"file://{folder}", Path(f"file://{folder}"), f"file:{folder}/manifest.json"):
        assert open_shards(path).path == local.path


def test_faults_that_stay_are_told(server):
    shards = open_shards(server.url, options=StoreOptions(retries=2))
    server.faults = ["500"] * 3
    with pytest.raises(
        StorageError, match=r"shard-00000-of-00002.arrow: cannot be read after 3 tries: status 500.* \(block 0\)"
    ):
        shards.read_block(0)
    server.faults = ["flip"] * 2
    with pytest.raises(DamagedBlock, match="xxh3-128") as caught:
        shards.read_block(1)
    assert caught.value.shard == f"{server.url}/shard-00000-of-00002.arrow"
    server.faults = ["long"] * 3
    with pytest.raises(StorageError, match="at most"):
        shards.read_block(0)
    assert not server.faults


def test_a_server_that_ignores_ranges_is_refused(server):
    shards = open_shards(server.url, options=StoreOptions(retries=1))
    server.faults = ["200"] * 2
    asked = len(server.asked)
    with pytest.raises(StorageError, match=r"got all \(status 200\): the server ignores ranges"):
        shards.read_block(0)
    assert len(server.asked) == asked + 2


@pytest.mark.parametrize("fault", ["200", "long"])
def test_a_stray_answer_is_asked_for_again(local, server, fault):
    """A proxy that sends a page of its own once must not end a run."""
    shards = open_shards(server.url, options=StoreOptions(retries=1))
    server.faults = [fault, "", fault]
    assert uids(shards) == uids(local)
    assert shards.stats()["retries"] == 2


def test_pauses_double_on_average_and_are_bounded(memory, monkeypatch):
    pauses = []

    def failing(*arguments, **options):
        raise TimeoutError("nothing came")

    monkeypatch.setattr(MemoryFileSystem, "cat_file", failing)
    monkeypatch.setattr("clozeline.pipeline.shards.store._FIRST_PAUSE_S", 0.1)
    monkeypatch.setattr("clozeline.pipeline.shards.store.time", SimpleNamespace(sleep=pauses.append))
    with pytest.raises(StorageError, match="after 2001 tries: TimeoutError: nothing came"):
        RemoteStore(memory, StoreOptions(retries=2000)).read(f"{memory}/a", (0, 4))
    assert len(pauses) == 2000
    assert all(0 <= pause <= 0.1 * 2 ** (number + 1) for number, pause in enumerate(pauses[:7]))
    assert max(pauses) <= 10
    assert sum(pauses[7:]) / len(pauses[7:]) == pytest.approx(5, rel=0.1), "at random, up to the longest pause"


@pytest.mark.parametrize("fault", ["stall", "drip"])
def test_a_body_that_does_not_end_is_given_up(local, server, fault):
    """Each byte restarts the clock of a socket, but not that of a request."""
    shards = open_shards(server.url, options=StoreOptions(retries=1, timeout_s=0.5))
    server.faults = [fault]
    assert shards.read_block(0).fixed["uid"].tolist() == local.read_block(0).fixed["uid"].tolist()
    assert shards.stats()["retries"] == 1


def test_errors_of_any_kind_are_failed_tries(memory, monkeypatch):
    """Packages for stores raise what they like; a missing right is as final as a missing object."""
    shards = open_shards(memory, options=StoreOptions(retries=1))
    raised = [RuntimeError("no token"), PermissionError("403"), RuntimeError("a"), RuntimeError("b")]
    real = MemoryFileSystem.cat_file

    def failing(self, *arguments, **options):
        if raised:
            raise raised.pop(0)
        return real(self, *arguments, **options)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", failing)
    with pytest.raises(StorageError, match=r"the store refuses: .*403"):
        shards.read_block(0)
    with pytest.raises(StorageError, match="after 2 tries: RuntimeError: b"):
        shards.read_block(0)
    shards.read_block(0)


def test_which_paths_are_urls():
    assert as_url("s3://bucket/set") == "s3://bucket/set"
    assert as_url(Path("s3://bucket/set")) == "s3://bucket/set"
    assert as_url("/data/set") is None
    assert as_url("file:///data/set") is None
    assert as_url("runs/s3:/x") is None


@settings(max_examples=30)
@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 64))
def test_a_long_range_is_read_by_requests_that_tile_it(start, length, largest):
    whole = bytes(n % 251 for n in range(600))
    fsspec.filesystem("memory").pipe_file("/tiles/a", whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clozeline.pipeline.shards.store.LARGEST_REQUEST", largest)
        store = RemoteStore("memory://tiles", StoreOptions())
        assert store.read("memory://tiles/a", (start, start + length)) == whole[start : start + length]
    assert (store.bytes, store.requests, store.retries) == (length, -(-length // largest), 0)


def test_a_whole_object_above_its_limit_is_refused():
    fsspec.filesystem("memory").pipe_file("/tiles/a", b"12345")
    store = RemoteStore("memory://tiles", StoreOptions(retries=0))
    assert store.read_whole("memory://tiles/a", 5) == b"12345"
    with pytest.raises(StorageError, match=r"a: expected at most 4 bytes, got more$"):
        store.read_whole("memory://tiles/a", 4)
