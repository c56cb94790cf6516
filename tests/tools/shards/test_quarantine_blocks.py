"""Blocks that cannot be read are listed for good; the stream continues around them, in the same order."""

import json

import pytest

from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.quarantine_blocks import main, put_in_quarantine
from clozeline.train.data.stream.stream import Stream
from tests.shard_sets import toy_set


def damage(path, place):
    raw = bytearray(path.read_bytes())
    raw[place] ^= 16
    path.write_bytes(raw)


def epoch(folder, rows):
    """Block and row of every sample in order, and its weight."""
    options = {"lanes": 2, "global_batch": 2, "micro_batch": 2, "io_threads": 0}
    found = []
    with Stream(open_shards(folder), rank=0, world_size=1, seed=1, **options) as stream:
        for _ in range(rows // 2):
            (batch,) = stream.next_step()
            places = zip(batch.origin.tolist(), batch.tensors["row_weight"].tolist(), strict=True)
            found += [(block, row, weight) for (_, block, row), weight in places]
    return found


@pytest.mark.parametrize("container", ["arrow", "tar"])
def test_the_stream_goes_on_around_what_is_found(tmp_path, capsys, container):
    shards = toy_set(tmp_path, [12, 8], container=container)
    digest, whole = shards.digest, epoch(tmp_path, 20)
    for block in (1, 4):
        damage(shards.shard_path(int(shards.index.shard[block])), int(shards.index.offset[block]) + 300)
    assert main([str(tmp_path)]) == 0
    assert "2 blocks put in quarantine, 0 were there before" in capsys.readouterr().out
    entries = json.loads((tmp_path / "quarantine.json").read_text())["blocks"]
    names = [facts.path for facts in shards.manifest.shards]
    assert [(entry["shard"], entry["block"]) for entry in entries] == [(names[0], 1), (names[1], 1)]
    assert all(entry["reason"].startswith("expected xxh3-128 ") for entry in entries)
    assert (open_shards(tmp_path).digest, open_shards(tmp_path).quarantined) == (digest, {1, 4})
    left = epoch(tmp_path, 20)
    assert [place for place in left if place[2]] == [place for place in whole if place[0] not in (1, 4)]
    assert len(left) == len(whole)


def test_a_lost_shard_and_a_short_one(tmp_path):
    shards = toy_set(tmp_path, [12, 8, 5])
    shards.shard_path(1).unlink()
    path = shards.shard_path(2)
    path.write_bytes(path.read_bytes()[:-1])
    before, new = put_in_quarantine(tmp_path / "manifest.json")
    assert before == []
    assert [(entry["shard"][:11], entry["block"], entry["reason"][:13]) for entry in new] == [
        ("shard-00001", 0, "the shard is "),
        ("shard-00001", 1, "the shard is "),
        ("shard-00002", 0, "the shard has"),
        ("shard-00002", 1, "the shard has"),
    ]
    assert open_shards(tmp_path).quarantined == {3, 4, 5, 6}


def test_what_stands_in_quarantine_stays_and_nothing_is_listed_twice(tmp_path, capsys):
    shards = toy_set(tmp_path, [12, 8])
    name = shards.manifest.shards[0].path
    mine = [{"shard": name, "block": 2, "reason": "spam"}, {"shard": name, "block": 0, "reason": "doubtful"}]
    (tmp_path / "quarantine.json").write_text(json.dumps(mine))
    for block in (0, 1):
        damage(shards.shard_path(0), int(shards.index.offset[block]) + 300)
    for added in (1, 0):
        assert main([str(tmp_path)]) == 0
        assert f"{added} block" in capsys.readouterr().out
        entries = json.loads((tmp_path / "quarantine.json").read_text())["blocks"]
        assert entries[:2] == mine
        assert [entry["block"] for entry in entries] == [2, 0, 1]


def test_a_set_in_a_store_is_refused(capsys):
    assert main(["memory://nowhere/set"]) == 64
    assert "copy the set here first" in capsys.readouterr().err
