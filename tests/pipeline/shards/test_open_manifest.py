import json
import tempfile
from pathlib import Path

import fsspec
import numpy as np
import pytest

from clozeline.errors import StorageError
from clozeline.pipeline.shards import (
    DamagedBlock,
    ManifestError,
    open_shards,
)
from tests.shard_sets import change_manifest, toy_set, uids


@pytest.mark.parametrize("container", ["arrow", "tar"])
def test_bytes_outside_the_blocks_are_checked_with_the_whole_file(tmp_path, container):
    shards = toy_set(tmp_path, [9], container=container)
    path = shards.shard_path(0)
    whole = path.read_bytes()
    for byte in (0, 9, 100, len(whole) - 1):
        broken = bytearray(whole)
        broken[byte] ^= 4
        path.write_bytes(broken)
        uids(open_shards(tmp_path))  # the stream never reads these bytes
        with pytest.raises(ManifestError, match="SHA-256"):
            open_shards(tmp_path, verify="shard")
    path.write_bytes(whole)
    open_shards(tmp_path, verify="shard")


def test_a_missing_shard(tmp_path):
    shards = toy_set(tmp_path, [4, 4])
    shards.shard_path(1).unlink()
    with pytest.raises(ManifestError, match=r"shard-00001-of-00002\.arrow.*no such file"):
        open_shards(tmp_path)
    with pytest.raises(DamagedBlock, match="No such file"):
        shards.read_block(1)


def test_a_folder_without_a_manifest_is_no_set(tmp_path):
    with pytest.raises(StorageError, match="no shard set here"):
        open_shards(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["index"].update(sha256="0" * 64), "expected SHA-256 000"),
        (lambda m: m["index"].update(bytes=1), "at most 1 are read"),
        (lambda m: m.update(block_rows=5), "5 rows in block 0, got 4"),
        (
            lambda m: [shard.update(rows=n) for shard, n in zip(m["shards"], (9, 4), strict=True)],
            "as many rows of each shard",
        ),
        (lambda m: [shard.update(blocks=n) for shard, n in zip(m["shards"], (2, 2), strict=True)], "in order"),
        (lambda m: m["shards"].reverse(), "in order"),
        (
            lambda m: (m["shards"][0].update(bytes=700), m["totals"].update(bytes=700 + m["shards"][1]["bytes"])),
            "lies outside",
        ),
    ],
)
def test_a_manifest_that_contradicts_its_index(tmp_path, change, message):
    toy_set(tmp_path, [10, 3])
    change_manifest(tmp_path, change)
    with pytest.raises(ManifestError, match=message):
        open_shards(tmp_path)


def test_a_missing_index(tmp_path):
    toy_set(tmp_path, [10])
    (tmp_path / "index.arrow").unlink()
    with pytest.raises(ManifestError, match=r"index\.arrow"):
        open_shards(tmp_path)


def test_verify_reads_remote_shards_whole(local, memory):
    open_shards(memory, verify="shard")
    name = f"{memory.removeprefix('memory:/')}/{local.manifest.shards[1].path}"
    system = fsspec.filesystem("memory")
    system.pipe_file(name, b"X" + system.cat_file(name)[1:])
    assert uids(open_shards(memory)) == uids(local), "no block has this byte"
    with pytest.raises(ManifestError, match=r"shard-00001-of-00002.arrow: expected SHA-256"):
        open_shards(memory, verify="shard")


def test_opening_leaves_no_files(memory, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    shards = open_shards(memory)
    assert (str(shards.path), list((tmp_path / "temporary").iterdir())) == (f"{Path(memory)}/manifest.json", [])
    with pytest.raises(StorageError):
        open_shards(f"{memory}/nowhere")
    assert not list((tmp_path / "temporary").iterdir())


def test_a_set_whose_shard_is_wholly_in_quarantine_opens_without_its_file(tmp_path):
    shards = toy_set(tmp_path, [8, 8, 8])
    inside = np.flatnonzero(shards.index.shard == 1).tolist()
    shards.shard_path(1).unlink()
    for blocks in (inside[:1], inside):
        entries = [
            {"shard": shards.manifest.shards[1].path, "block": place, "reason": "disk"}
            for place, _ in enumerate(blocks)
        ]
        (tmp_path / "quarantine.json").write_text(json.dumps(entries))
        if blocks == inside:
            assert open_shards(tmp_path).quarantine.blocks == set(inside)
        else:
            with pytest.raises(ManifestError, match="no such file: copy it"):
                open_shards(tmp_path)
