"""Sets at a URL: the same rows as from a disk, whatever the store does."""

from pathlib import Path

import fsspec
import pytest

from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.shards import DamagedBlock, ManifestError, StoreOptions, open_shards
from tests.shard_sets import toy_set, uids


def test_a_store_in_memory_gives_the_same_rows(local, memory):
    for path in (memory, f"{memory}/manifest.json", Path(memory)):
        shards = open_shards(path)
        assert uids(shards) == uids(local)
        assert shards.digest == local.digest
    assert shards.stats()["requests"] == len(shards.index) + 4, "manifest, index, quarantine, list"


def test_http_fetches_exactly_the_bytes_of_each_block(local, server):
    shards = open_shards(server.url)
    index = local.index
    opened = len(server.ranges)
    assert uids(shards) == uids(local)
    wanted = [(int(o), int(o) + int(n)) for o, n in zip(index.offset, index.length, strict=True)]
    assert server.ranges[opened:] == wanted


@pytest.mark.parametrize("fault", ["500", "503", "cut", "garbage", "short", "flip", "moved"])
def test_faults_that_pass_are_not_noticed(local, server, fault):
    shards = open_shards(server.url)
    server.faults = [fault, "", fault]
    assert uids(shards) == uids(local)
    assert shards.stats()["retries"] == (0 if fault in ("flip", "moved", "short") else 2)


@pytest.mark.parametrize("fault", ["500", "cut", "garbage", "moved"])
def test_faults_while_opening_are_not_noticed(local, server, fault):
    """A manifest cut off is a failed request, not a wrong manifest."""
    server.faults = [fault, "", fault]
    assert uids(open_shards(server.url)) == uids(local)


@pytest.mark.parametrize("end", ["inside the block", "before it"])
def test_an_object_that_has_become_shorter_is_a_corrupt_block(local, server, end):
    """Like a truncated file: `mask` may go on without it."""
    shards = open_shards(server.url, options=StoreOptions(retries=1))
    path = local.shard_path(1)
    at = int(local.index.offset[-1])
    path.write_bytes(path.read_bytes()[: at + (9 if end == "inside the block" else -100)])
    server.faults = ["", ""] if end == "inside the block" else ["416", "416"]
    with pytest.raises(DamagedBlock, match=f"bytes at {at}"):
        shards.read_block(len(shards.index) - 1)


def test_a_set_that_was_made_again_meanwhile_is_noticed(local, server):
    shards = open_shards(server.url)
    before = uids(shards)
    toy_set(local.path.parent, [17, 20], row_length=9)
    with pytest.raises(DamagedBlock):
        uids(shards)
    assert uids(open_shards(server.url)) == before, "the same rows in other blocks"
    fresh = open_shards(server.url)
    assert fresh.digest != shards.digest


def test_what_is_not_there(server, memory):
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


def test_the_shards_are_listed_once_and_only_on_request(memory):
    """A million names are a thousand requests; all processes would find the same."""
    shards = open_shards(memory, check_files=False)
    opened = shards.stats()["requests"]
    shards.check_files()
    assert shards.stats()["requests"] == open_shards(memory).stats()["requests"] == opened + 1


def test_a_page_in_place_of_a_manifest_is_told_with_its_url(memory):
    fsspec.filesystem("memory").pipe_file(f"{memory.removeprefix('memory:/')}/manifest.json", b"<html>log in</html>")
    with pytest.raises(ManifestError, match=f"^{memory}/manifest.json: not a manifest"):
        open_shards(memory)


def test_a_large_index_is_fetched_in_pieces(local, memory, monkeypatch):
    """So that the deadline of one request suits any size."""
    monkeypatch.setattr("clozeline.pipeline.shards.store.LARGEST_REQUEST", 512)
    shards = open_shards(memory, verify="shard")
    assert uids(shards) == uids(local)
    total = sum(shard.bytes for shard in local.manifest.shards) + local.manifest.index.bytes
    assert shards.stats()["requests"] > total / 512
