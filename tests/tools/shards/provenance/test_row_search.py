from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.rows import Rows
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


@pytest.mark.parametrize(
    ("label", "most"), [("masked_lm", 1 / 8), ("unilm_mixture", 1 / 8), ("document_rotation", 1 / 4)]
)
def test_rows_of_a_document_are_found_in_few_blocks(small_blocks, monkeypatch, label, most):
    """By halving in their shard, or by reading it. The median shard has an eighth of the blocks."""
    shards = open_shards(small_blocks / "corrupt" / label / "train")
    reads: list[int] = []
    read = ShardSet.read_block
    expected, shares = rows_by_document(shards), list[float]()

    def counting(self: ShardSet, block: int, **how: object) -> Rows:
        reads.append(block)
        return read(self, block, **how)

    monkeypatch.setattr(
        ShardSet, "read_block", lambda self, block, **how: reads.append(block) or read(self, block, **how)
    )
    for uid, places in list(expected.items())[::5]:
        reads.clear()
        found, untold = find_document_rows(shards, [uid])
        assert ({(one.block, one.row) for one in found}, untold) == (places, "")
        shares.append(len(set(reads)) / len(shards.index))
    assert len(shares) > 20
    assert np.median(shares) < most
    wanted = list(expected)[:5]
    found, _ = find_document_rows(shards, wanted)
    assert {(one.block, one.row) for one in found} == set.union(*(expected[uid] for uid in wanted))


def test_windows_of_a_document_are_found_by_halving(tmp_path, monkeypatch):
    """Each window is looked up in the sample set, for its length, and in the set itself: both have one shard."""
    output = build(tmp_path, 100, 1, 1, ("document_rotation",))
    shards = open_shards(output / "corrupt/document_rotation/train")
    blocks, expected = len(shards.index), rows_by_document(shards)
    reads: list[tuple[Path, int]] = []
    read = ShardSet.read_block
    monkeypatch.setattr(
        ShardSet, "read_block", lambda self, block, **how: reads.append((self.path, block)) or read(self, block, **how)
    )

    def read_blocks(uid: bytes) -> int:
        reads.clear()
        found, untold = find_document_rows(shards, [uid])
        assert ({(one.block, one.row) for one in found}, untold) == (expected[uid], "")
        return len(set(reads))

    assert blocks > 256
    assert max(map(len, expected.values())) > 3
    for uid, rows in list(expected.items())[::7]:
        # halved ten times at most in each set, the block and its neighbour
        assert read_blocks(uid) <= 2 * 12 * len(rows) < blocks
    # without the samples, the shard is read
    next(output.glob("group/document-*/train/shard-*")).unlink()
    assert read_blocks(uid) == blocks


def test_the_samples_of_a_document_are_computed_without_its_rows(small_blocks):
    shards = open_shards(next(small_blocks.glob("group/packed-*/train/manifest.json")))
    packing, label = packing_of(shards), shards.path.parents[1].name
    uids_of: dict[bytes, set[int]] = {}
    for block, number, row in ((b, n, r) for b in range(len(shards.index)) for n, r in enumerate(shards.read_block(b))):
        for uid in packing.documents(shards.read_block(block).take(np.array([number])))[0]:
            uids_of.setdefault(uid, set()).add(int(row.fixed["uid"]))
    for uid, samples in uids_of.items():
        own = packing_of(shards, [uid])
        assert len(own.uids) < len(packing.uids)
        computed = set(own.sample_uids(np.frombuffer(uid, "S16"), label))
        assert len(computed - samples) <= 1  # the last row of a shard, if it is too short
        assert len(samples - computed) <= 1  # a row that holds its separator alone
