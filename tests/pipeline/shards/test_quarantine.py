"""`quarantine.json`: what it may say."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.shards import ManifestError, open_shards
from pipeline.shards.quarantine import read_quarantine
from tests.shard_sets import toy_set

FIRST, SECOND, THIRD = (f"shard-{number:05d}-of-00003.arrow" for number in range(3))


def entry(shard: Any = FIRST, block: Any = 0, reason: Any = "disk 3") -> dict[str, Any]:
    return {"shard": shard, "block": block, "reason": reason}


def test_blocks_are_numbered_over_all_shards(tmp_path: Path) -> None:
    """Shards of 2, 0 and 3 blocks; naming one twice is no harm."""
    manifest = toy_set(tmp_path, [8, 0, 11]).manifest
    raw = json.dumps([entry(FIRST, 1), entry(THIRD, 0), entry(THIRD, 2), entry(THIRD, 2, "again")]).encode()
    found = read_quarantine("here", raw, manifest)
    assert (found.blocks, found.sha256) == ({1, 2, 4}, hashlib.sha256(raw).hexdigest())
    assert read_quarantine("here", b"[]", manifest).blocks == frozenset()


@pytest.mark.parametrize(
    "content",
    [
        entry(),
        {},
        "text",
        [entry(block=2)],
        [entry(block=-1)],
        [entry(block=1.5)],
        [entry(block="1")],
        [entry(block=True)],
        [entry(SECOND, 0)],
        [entry("../shard")],
        [entry(3)],
        [entry(reason=None)],
        [{**entry(), "who": "me"}],
        [{"shard": FIRST, "block": 0}],
        [["shard", "block", "reason"]],
        [None],
    ],
)
def test_anything_else_is_refused_with_its_place(tmp_path: Path, content: Any) -> None:
    toy_set(tmp_path, [8, 0, 11])
    (tmp_path / "quarantine.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ManifestError, match=r"quarantine.json: not a list of blocks in quarantine"):
        open_shards(tmp_path)


@pytest.mark.parametrize("raw", [b"", b"[", b"\xff", b"[" * 100_000])
def test_damage_is_refused(tmp_path: Path, raw: bytes) -> None:
    toy_set(tmp_path, [8])
    (tmp_path / "quarantine.json").write_bytes(raw)
    with pytest.raises(ManifestError, match="not a list of blocks"):
        open_shards(tmp_path)
