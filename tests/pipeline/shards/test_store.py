"""Sets at a URL: the same rows as from a disk, whatever the store does."""

import tempfile
from pathlib import Path
from types import SimpleNamespace

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.configuration.paths import as_url
from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.shards import DamagedBlock, ManifestError, StoreOptions, open_shards
from clozeline.pipeline.shards.store import RemoteStore
from tests.shard_sets import uids

SYSTEM = fsspec.filesystem("memory")


def change(memory, name, make):
    """Replace a file of the set in memory by what `make` makes of its bytes."""
    path = f"{memory.removeprefix('memory:/')}/{name}"
    SYSTEM.pipe_file(path, make(SYSTEM.cat_file(path)))


def test_a_store_in_memory_gives_the_same_rows(local, memory, tmp_path, monkeypatch):
    """Opening takes three requests and no files; the list of shards is one of them, on request."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for path in (memory, f"{memory}/manifest.json", Path(memory)):
        shards = open_shards(path)
        assert (uids(shards), shards.digest) == (uids(local), local.digest)

    assert shards.stats()["requests"] == len(shards.index) + 3, "manifest, index, list"

    shards = open_shards(memory, check_files=False)

    assert shards.stats()["requests"] == 2

    shards.check_files()

    assert shards.stats()["requests"] == 3
    assert not list((tmp_path / "temporary").iterdir())


def test_which_paths_are_urls(local):
    folder = local.path.parent
    for path in (f"file://{folder}", Path(f"file://{folder}"), f"file:{folder}/manifest.json"):
        assert open_shards(path).path == local.path
    for path in ("s3://bucket/set", Path("s3://bucket/set")):
        assert as_url(path) == "s3://bucket/set"
    for path in ("/data/set", "file:///data/set", "runs/s3:/x"):
        assert as_url(path) is None


def test_http_fetches_exactly_the_bytes_of_each_block(local, server):
    shards = open_shards(server.url)
    opened = len(server.ranges)

    assert uids(shards) == uids(local)

    wanted = [
        (int(o), int(o) + int(n))
        for o, n in zip(local.index.offset, local.index.length, strict=True)
    ]

    assert server.ranges[opened:] == wanted


@settings(max_examples=30)
@given(
    st.integers(0, 300),
    st.integers(0, 300),
    st.integers(1, 64),
)
def test_a_long_range_is_read_by_requests_that_tile_it(start, length, largest):
    whole = bytes(n % 251 for n in range(600))
    SYSTEM.pipe_file("/tiles/a", whole)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clozeline.pipeline.shards.store.LARGEST_REQUEST", largest)
        store = RemoteStore("memory://tiles", StoreOptions(retries=0))

        assert (
            store.read("memory://tiles/a", (start, start + length)) == whole[start : start + length]
        )
        assert (
            store.bytes,
            store.requests,
            store.retries,
        ) == (length, -(-length // largest), 0)
        assert store.read_whole("memory://tiles/a", 600) == whole

        with pytest.raises(StorageError, match=r"a: expected at most 599 bytes, got more$"):
            store.read_whole("memory://tiles/a", 599)


# Faults
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "retries"),
    [
        ("500", 2),
        ("503", 2),
        ("cut", 2),
        ("garbage", 2),
        ("200", 2),
        ("long", 2),
        ("flip", 0),
        ("moved", 0),
        ("short", 0),
    ],
)
def test_faults_that_pass_are_not_noticed(local, server, fault, retries):
    """Neither a page of a proxy's own, sent once, nor a manifest that was cut off ends a run."""
    shards = open_shards(server.url)
    server.faults = [fault, "", fault]

    assert uids(shards) == uids(local)
    assert shards.stats()["retries"] == retries

    if fault not in ("flip", "short", "200", "long"):
        server.faults = [fault, "", fault]
        assert uids(open_shards(server.url)) == uids(local)


@pytest.mark.parametrize("fault", ["stall", "drip"])
def test_a_body_that_does_not_end_is_given_up(local, server, fault):
    """Each byte restarts the clock of a socket, but not that of a request."""
    shards = open_shards(server.url, options=StoreOptions(retries=1, timeout_s=0.5))
    server.faults = [fault]
    assert shards.read_block(0).fixed["uid"].tolist() == local.read_block(0).fixed["uid"].tolist()
    assert shards.stats()["retries"] == 1


@pytest.mark.parametrize(
    ("faults", "error", "said"),
    [
        (
            ["500"] * 3,
            StorageError,
            r"shard-0.*: cannot be read after 3 tries: status 500.* \(block 0\)",
        ),
        (
            ["200"] * 3,
            StorageError,
            r"got the entire file \(status 200\): the server ignores ranges",
        ),
        (["long"] * 3, StorageError, "at most"),
        (["flip"] * 2, DamagedBlock, "xxh3-128"),
    ],
)
def test_faults_that_stay_are_told(server, faults, error, said):
    shards = open_shards(server.url, options=StoreOptions(retries=2))
    server.faults = list(faults)
    with pytest.raises(error, match=said) as caught:
        shards.read_block(0)

    assert not server.faults

    if error is DamagedBlock:
        assert caught.value.shard == f"{server.url}/shard-00000-of-00002.arrow"


def test_errors_of_any_kind_are_failed_tries(memory, monkeypatch):
    """Packages for stores raise what they like; a missing right is as final as a missing object."""
    shards = open_shards(memory, options=StoreOptions(retries=1))
    raised = [
        RuntimeError("no token"),
        PermissionError("403"),
        RuntimeError("a"),
        RuntimeError("b"),
    ]

    real = MemoryFileSystem.cat_file

    def failing(self, *arguments, **options):
        if raised:
            raise raised.pop(0)
        return real(self, *arguments, **options)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", failing)
    for said in (r"the store refuses: .*403", "after 2 tries: RuntimeError: b"):
        with pytest.raises(StorageError, match=said):
            shards.read_block(0)

    shards.read_block(0)


def test_pauses_double_and_are_bounded(memory, monkeypatch):
    """At random, up to these."""
    pauses = []
    store = "clozeline.pipeline.shards.store"
    monkeypatch.setattr(MemoryFileSystem, "cat_file", lambda *arguments, **options: 1 / 0)
    monkeypatch.setattr(f"{store}._FIRST_PAUSE_S", 0.1)
    monkeypatch.setattr(f"{store}.random", SimpleNamespace(uniform=lambda low, high: (low, high)))
    monkeypatch.setattr(f"{store}.time", SimpleNamespace(sleep=pauses.append))
    with pytest.raises(StorageError, match="after 10 tries: ZeroDivisionError"):
        RemoteStore(memory, StoreOptions(retries=9)).read(f"{memory}/a", (0, 4))

    assert pauses == [
        (0, pytest.approx(high)) for high in (0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10)
    ]


# Objects that are not those of the set
# --------------------------------------------------------------------------------


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


def test_what_is_not_there(local, server, memory):
    for path, error, said in (
        (f"{server.site.url}nowhere", StorageError, "no such object"),
        ("nonsense://bucket/set", ConfigurationError, "cannot open this type of store"),
    ):
        with pytest.raises(error, match=said):
            open_shards(path)

    name = local.manifest.shards[1].path
    change(memory, name, lambda raw: b"X" + raw[1:])

    assert uids(open_shards(memory)) == uids(local), "no block has this byte"

    with pytest.raises(ManifestError, match=r"shard-00001-of-00002.arrow: expected SHA-256"):
        open_shards(memory, verify="shard")
    change(memory, name, lambda raw: raw[:-1])
    with pytest.raises(ManifestError, match=r"expected \d+ bytes, got \d+"):
        open_shards(memory)
    SYSTEM.rm(f"{memory.removeprefix('memory:/')}/{name}")
    with pytest.raises(ManifestError, match="the file is missing"):
        open_shards(memory)
    for page, said in (
        (b"<html>log in</html>", "not the manifest"),
        (b"[" + b"0," * (2 << 20), "about 2097152 entries"),
    ):
        change(memory, "manifest.json", lambda raw, page=page: page)
        with pytest.raises(ManifestError, match=f"^{memory}/manifest.json: {said}"):
            open_shards(memory)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"foo": 1}, r"store\.fsspec\.foo:"),
        ({"headers": 5}, r"store\.fsspec\.headers:"),
        ({"headers": {"a": 5}, "skip_auto_headers": []}, r"store\.fsspec\.headers\.a:"),
        ({"client_kwargs": {"foo": 1}}, r"store\.fsspec\.client_kwargs\.foo:"),
        ({"client_kwargs": 5}, r"store\.fsspec\.client_kwargs:"),
        ({"ssl": "x"}, r"store\.fsspec\.ssl:"),
    ],
)
def test_wrong_options_are_named_at_once(server, options, key):
    url = f"{server.url}/manifest.json"
    with pytest.raises(ConfigurationError, match=key):
        RemoteStore(url, StoreOptions(fsspec=options, retries=9)).properties(url)
    assert not server.ranges
