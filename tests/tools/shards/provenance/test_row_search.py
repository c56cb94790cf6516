from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.tools.shards.provenance.packed_documents import packing_of
from clozeline.tools.shards.provenance.row_search import blocks_of, find_document_rows, find_rows
from tests.shard_sets import ordered, toy_set, write_set
from tests.tools.small_run import build, example_sets


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


def rows_by_document(shards: ShardSet) -> dict[bytes, set[tuple[int, int]]]:
    """The rows that hold tokens of each document, from all blocks and the documents' order."""
    packing, rows_of = packing_of(shards), dict[bytes, set[tuple[int, int]]]()
    for block in range(len(shards.index)):
        rows = shards.read_block(block)
        for uid in {uid for found in packing.documents(rows) for uid in found} if packing else ():
            mask = packing.contains_documents(rows, np.frombuffer(uid, "S16"))
            rows_of.setdefault(uid, set()).update((block, row) for row in np.flatnonzero(mask).tolist())
        for row, uid in enumerate(map(bytes, rows.fixed["document_uid"])) if packing is None else ():
            rows_of.setdefault(uid, set()).add((block, row))
    return {uid: rows for uid, rows in rows_of.items() if rows}


@pytest.fixture(scope="module")
def small_blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets of 8 shards with two rows a block."""
    labels = ("masked_lm", "document_rotation", "unilm_mixture")
    return build(tmp_path_factory.mktemp("blocks"), 120, 8, 2, labels)


@pytest.mark.parametrize("label", ["masked_lm", "unilm_mixture", "document_rotation"])
def test_rows_of_a_document_are_found_in_their_shard(small_blocks, monkeypatch, label):
    shards = open_shards(small_blocks / "corrupt" / label / "train")
    reads: list[int] = []
    read = ShardSet.read_block
    expected = rows_by_document(shards)
    monkeypatch.setattr(
        ShardSet, "read_block", lambda self, block, **how: reads.append(block) or read(self, block, **how)
    )
    for uid, places in list(expected.items())[::5]:
        reads.clear()
        found, untold = find_document_rows(shards, [uid])
        assert ({(one.block, one.row) for one in found}, untold) == (places, "")
        assert len(set(reads)) < len(shards.index) / 2, "one shard of each variant, of eight"
    wanted = list(expected)[:5]
    found, _ = find_document_rows(shards, wanted)
    assert {(one.block, one.row) for one in found} == set.union(*(expected[uid] for uid in wanted))
