from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from clozeline.pipeline.shards import ShardSet
from tests.shard_server import ShardServer
from tests.shard_sets import toy_set, upload


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clozeline.pipeline.shards.store._FIRST_PAUSE_S", 0.0)


@pytest.fixture
def local(tmp_path: Path) -> ShardSet:
    return toy_set(tmp_path / "local", [20, 17])


@pytest.fixture
def memory(local: ShardSet) -> Iterator[str]:
    """The set in fsspec's store in memory."""
    name = upload(local)
    yield f"memory:/{name}"
    fsspec.filesystem("memory").rm(name, recursive=True)


@pytest.fixture
def server(local: ShardSet) -> Iterator[ShardServer]:
    found = ShardServer(local.path.parent)
    with found.site.running():
        yield found
        found.released.set()
