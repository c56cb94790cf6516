"""`quarantine.json`: what it may say."""

import hashlib
import json

import pytest

from clozeline.pipeline.shards import ManifestError, open_shards
from clozeline.pipeline.shards.quarantine import publish_quarantine, read_quarantine
from tests.shard_sets import toy_set

FIRST, SECOND, THIRD = (f"shard-{number:05d}-of-00003.arrow" for number in range(3))


def entry(shard=FIRST, block=0, reason="disk 3"):
    return {"shard": shard, "block": block, "reason": reason}


def test_blocks_are_numbered_over_all_shards(tmp_path):
    """Shards of 2, 0 and 3 blocks; naming one twice does no harm."""
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
def test_anything_else_is_refused_with_its_place(tmp_path, content):
    toy_set(tmp_path, [8, 0, 11])
    (tmp_path / "quarantine.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ManifestError, match=r"quarantine.json: not a list of blocks in quarantine"):
        open_shards(tmp_path)


@pytest.mark.parametrize("raw", [b"", b"[", b"\xff", b"[" * 100_000])
def test_damage_is_refused(tmp_path, raw):
    toy_set(tmp_path, [8])
    (tmp_path / "quarantine.json").write_bytes(raw)
    with pytest.raises(ManifestError, match="not a list of blocks"):
        open_shards(tmp_path)


def test_no_flipped_bit_of_a_written_file_changes_what_is_in_quarantine(tmp_path):
    """All bits of the file, one after another; none is taken for another quarantine."""
    manifest = toy_set(tmp_path, [8, 0, 11]).manifest
    publish_quarantine(tmp_path, [entry(FIRST, 0), entry(THIRD, 2, "no disk")])
    whole = (tmp_path / "quarantine.json").read_bytes()
    assert read_quarantine("here", whole, manifest).blocks == {0, 4}
    silent = []
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            read_quarantine("here", bytes(damaged), manifest)
        except ManifestError:
            continue
        silent.append(bit)
    assert silent == []


def test_a_changed_file_is_refused_with_the_way_out(tmp_path):
    toy_set(tmp_path, [8, 0, 11])
    publish_quarantine(tmp_path, [entry(FIRST, 0)])
    path = tmp_path / "quarantine.json"
    path.write_text(path.read_text().replace('"block": 0', '"block": 1'))
    with pytest.raises(
        ManifestError,
        match=r"quarantine.json: not a list of blocks in quarantine: checksum.*clozeline quarantine-blocks MANIFEST",
    ):
        open_shards(tmp_path)


@pytest.mark.parametrize("missing", ["blocks", "checksum"])
def test_both_keys_are_needed(tmp_path, missing):
    toy_set(tmp_path, [8, 0, 11])
    publish_quarantine(tmp_path, [entry(FIRST, 0)])
    path = tmp_path / "quarantine.json"
    content = json.loads(path.read_text())
    del content[missing]
    path.write_text(json.dumps(content))
    with pytest.raises(ManifestError, match="not a list of blocks in quarantine"):
        open_shards(tmp_path)


def test_a_link_to_nothing_is_no_absence(tmp_path):
    """The blocks that it named would be read."""
    toy_set(tmp_path, [8, 0, 11])
    (tmp_path / "quarantine.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(ManifestError, match=r"quarantine.json: cannot be read"):
        open_shards(tmp_path)
