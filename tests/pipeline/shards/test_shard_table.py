"""Sets of very many shards keep their list in a file; everything else is as for few."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.shards import ManifestError, ShardSet, open_shards
from pipeline.shards.shard_table import SHARDS_FILE, ShardTable, relative_path
from tests.shard_sets import toy_set


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ShardSet, ShardSet]:
    """The same set with its list inside the manifest, and beside it."""
    inside = toy_set(tmp_path / "inside", [9, 4, 7])
    monkeypatch.setattr("pipeline.shards.manifest_writer._MOST_LISTED", 3)
    return inside, toy_set(tmp_path / "beside", [9, 4, 7])


def test_a_list_beside_the_manifest_says_the_same(listed: tuple[ShardSet, ShardSet]) -> None:
    inside, beside = listed
    assert isinstance(beside.manifest.shards, ShardTable)
    assert list(beside.manifest.shards) == list(inside.manifest.shards)
    assert beside.manifest.shards[-1] == inside.manifest.shards[2]
    assert beside.manifest.shards[1:] == list(inside.manifest.shards[1:])
    assert [beside.read_block(b).fixed["uid"].tolist() for b in range(len(beside.index))] == [
        inside.read_block(b).fixed["uid"].tolist() for b in range(len(inside.index))
    ]
    assert beside.digest == open_shards(beside.path, verify="shard").digest
    assert beside.digest != inside.digest


def test_every_flipped_bit_of_the_list_is_found(listed: tuple[ShardSet, ShardSet]) -> None:
    path = listed[1].path.parent / SHARDS_FILE
    raw = path.read_bytes()
    for place in range(0, len(raw), 37):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 8]) + raw[place + 1 :])
        with pytest.raises(ManifestError, match="expected SHA-256"):
            open_shards(path.parent)
    path.unlink()
    with pytest.raises(ManifestError, match="names this list"):
        open_shards(path.parent)


@pytest.mark.parametrize("path", ["", ".", "..", "/a", "a/../b", "a//b", "a/", "./a", "s3:x", "a\\b", "a\n"])
def test_paths_stay_inside(path: str) -> None:
    with pytest.raises(ValueError, match="must be relative"):
        relative_path(path)


@pytest.mark.parametrize("path", ["a", "a/b.c", "..a", "a..", ".a", "a/.b"])
def test_ordinary_paths(path: str) -> None:
    assert relative_path(path) == path
