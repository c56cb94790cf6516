import fsspec
import pytest

from tests.range_site import ShardServer
from tests.shard_sets import toy_set, upload


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr("clozeline.pipeline.shards.store._FIRST_PAUSE_S", 0.0)


@pytest.fixture
def local(tmp_path):
    return toy_set(tmp_path / "local", [20, 17])


@pytest.fixture
def memory(local):
    name = upload(local)
    yield f"memory:/{name}"
    fsspec.filesystem("memory").rm(name, recursive=True)


@pytest.fixture
def server(local):
    found = ShardServer(local.path.parent)
    with found.site.running():
        yield found
        found.released.set()
