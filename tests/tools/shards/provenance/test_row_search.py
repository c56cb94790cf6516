from __future__ import annotations

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.tools.shards.provenance.row_search import blocks_of, find_rows
from tests.shard_sets import ordered, toy_set, write_set
from tests.tools.small_run import example_sets


def everywhere(shards: ShardSet) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for block in range(len(shards.index)):
        for row, uid in enumerate(shards.read_block(block).fixed["uid"].tolist()):
            found.setdefault(uid, []).append((block, row))
    return found


def test_rows_of_sets_in_order_and_of_others_are_found(shard_sets, tmp_path):
    for shards in (open_shards(example_sets(shard_sets)["masked_lm"][0]), toy_set(tmp_path, [9, 0, 13])):
        for uid, places in everywhere(shards).items():
            found = find_rows(shards, uid)
            assert [(one.block, one.row) for one in found] == places
            assert {one.uid for one in found} == {uid}


def test_a_shard_in_order_is_searched_by_halving(tmp_path, monkeypatch):
    shards = write_set(tmp_path, [ordered(range(1, 256)), ordered(range(300, 556))])
    reads: list[int] = []
    read = ShardSet.read_block
    monkeypatch.setattr(ShardSet, "read_block", lambda self, block, **options: reads.append(block) or read(self, block))
    for uid, places in everywhere(shards).items():
        reads.clear()
        assert [(one.block, one.row) for one in find_rows(shards, uid)] == places
        assert len(set(reads)) <= 2 * 8  # of 64 blocks in each shard: halved six times, the block and its neighbour


@pytest.mark.parametrize("sizes", [[9, 0, 13], [1], [0, 4]])
def test_blocks_of_a_shard(tmp_path, sizes):
    shards = toy_set(tmp_path, sizes)
    for shard in range(len(sizes)):
        assert list(blocks_of(shards, shard)) == [b for b, s in enumerate(shards.index.shard.tolist()) if s == shard]


def test_token_sets_have_no_samples(shard_sets):
    with pytest.raises(ConfigurationError, match="a set of tokens have no sample uid"):
        find_rows(open_shards(shard_sets / "encode"), 1)
