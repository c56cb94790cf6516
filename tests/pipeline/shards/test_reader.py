"""Reading a set: no damage is silent, rows are the same however they are asked for, files are
looked at once."""

import multiprocessing
import os
import pickle
import random
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import xxhash
from torch.utils.data import DataLoader, DistributedSampler

from clozeline.pipeline.block_options import Codec
from clozeline.pipeline.shards import DamagedBlock, ManifestError, open_shards
from clozeline.pipeline.shards.column_set import JoinedShards
from clozeline.train.data.sets.datasets import Datasets
from clozeline.train.data.stream.phases import phase_of
from tests.shard_sets import toy_set, uids

containers = pytest.mark.parametrize("container", ["arrow", "tar"])
codecs = pytest.mark.parametrize("codec", get_args(Codec))


@containers
@codecs
def test_no_flipped_bit_is_silent(tmp_path, container, codec):
    """Bits of blocks, index and manifest: every one is an error, none another sample."""
    shards = toy_set(tmp_path, [9, 6], container=container, codec=codec)
    draw = random.Random(7)
    places = [tmp_path / "index.arrow", tmp_path / "manifest.json"]
    spots = [
        (path, byte) for path in places for byte in draw.sample(range(path.stat().st_size), 40)
    ]

    for block in range(len(shards.index)):
        start = int(shards.index.offset[block])
        length = int(shards.index.length[block])
        path = shards.shard_path(int(shards.index.shard[block]))
        spots += [(path, start + byte) for byte in draw.sample(range(length), 25)]

    for path, byte in spots:
        whole = path.read_bytes()
        broken = bytearray(whole)
        broken[byte] ^= 1 << draw.randrange(8)
        path.write_bytes(broken)
        with pytest.raises((DamagedBlock, ManifestError)):
            uids(open_shards(tmp_path))
        path.write_bytes(whole)

    assert len(uids(open_shards(tmp_path))) == 15


@containers
@codecs
def test_a_shard_cut_anywhere(tmp_path, container, codec):
    """Blocks before the cut are read, the others are an exception.

    A reader of a mapped file would be killed.
    """
    shards = toy_set(tmp_path, [12], container=container, codec=codec)
    path = shards.shard_path(0)
    whole = path.read_bytes()
    ends = (shards.index.offset + shards.index.length).tolist()
    for size in [
        *range(0, len(whole), 97),
        *(end + change for end in ends for change in (-1, 0)),
    ]:
        os.truncate(path, size)
        with pytest.raises(ManifestError, match=f"got {size}; copy it again"):
            open_shards(tmp_path)
        for block, end in enumerate(ends):
            if end <= size:
                assert shards.read_block(block).fixed["uid"].tolist() == list(
                    range(4 * block + 1, 4 * block + 5)
                )
            else:
                with pytest.raises(
                    DamagedBlock, match=rf"block {block}: expected .* the file is truncated"
                ):
                    shards.read_block(block)

        path.write_bytes(whole)


def test_an_index_that_lies_about_rows(tmp_path):
    """A block with a good hash whose message holds another number of rows."""
    shards = toy_set(tmp_path, [8])
    entry = shards.index
    lie = type(entry)(
        entry.shard, entry.block, entry.offset, entry.length, entry.rows - 1, entry.xxh3
    )
    object.__setattr__(shards, "index", lie)
    with pytest.raises(DamagedBlock, match="3 rows without nulls"):
        shards.read_block(0)
    start = int(entry.offset[0])
    stored = shards.shard_path(0).read_bytes()[start : start + int(entry.length[0])]

    assert xxhash.xxh3_128_digest(stored) == entry.xxh3[0].tobytes()


def test_a_damaged_block_keeps_its_facts_on_the_way_from_another_process():
    error = DamagedBlock(Path("a/shard.arrow"), 7, "an xxh3-128", "another")
    found = pickle.loads(pickle.dumps(error))

    assert str(found) == str(error)
    assert str(error).startswith(
        "a/shard.arrow: block 7: expected an xxh3-128, got another; copy it again"
    )
    assert (found.shard, found.block, found.expected, found.got) == (
        "a/shard.arrow",
        7,
        "an xxh3-128",
        "another",
    )


# Rows
# --------------------------------------------------------------------------------------------------


@containers
def test_rows_by_number_and_in_a_loop_are_those_of_the_blocks(tmp_path, container):
    shards = toy_set(tmp_path, [10, 0, 1, 7], container=container)

    assert [int(row.fixed["uid"]) for row in shards] == uids(shards) == list(range(1, 19))

    for row in random.Random(3).sample(range(18), 18):
        block, place = shards.locate(row)
        assert shards.read_block(block).fixed["uid"][place] == shards[row].fixed["uid"] == row + 1

    assert [int(shards[row].fixed["uid"]) for row in (-1, np.int64(2))] == [18, 3]

    offsets = [shards.read_block(block).columns["input_ids"].offsets for block in (0, 1)]

    assert offsets[0] is offsets[1], "lists of one length share them"

    for row in (-1, 18):
        with pytest.raises(IndexError):
            shards.locate(row)

    for row in (18, -19):
        with pytest.raises(IndexError, match="the set has 18 rows"):
            shards[row]

    for wrong in ("input_ids", slice(2), 1.0, True):
        with pytest.raises(TypeError, match=r"such as shards\[3\], got .*read_block\(0\)"):
            shards[wrong]

    with pytest.raises(
        TypeError, match="open_shards: expected the path of a manifest or its folder, got 5"
    ):
        open_shards(5)


@containers
@codecs
def test_no_reader_changes_the_rows_of_another(tmp_path, container, codec):
    """Masking in place, which would mask the cached block, is an error.

    So it is where the block was not cached.
    """
    shards = toy_set(tmp_path, [9, 6], container=container, codec=codec)
    expected = [row["input_ids"].tolist() for row in shards]

    for row in (*list(shards), *(shards[number] for number in range(len(shards)))):
        for column in (row["input_ids"], row.fixed["document_uid"]):
            with pytest.raises(ValueError, match="read-only"):
                column[0] = 3
            column.copy()[0] = 3

    assert [shards[number]["input_ids"].tolist() for number in range(len(shards))] == expected


def test_a_set_is_a_dataset_of_torch(tmp_path):
    """In worker processes that are started either way, and divided among ranks: each row once."""
    shards = toy_set(tmp_path, [9, 6])

    for start, workers in (("fork", 2), ("spawn", 1)):
        context = multiprocessing.get_context(start)
        loader = DataLoader(
            shards, 4, collate_fn=uids_of, num_workers=workers, multiprocessing_context=context
        )
        assert sorted(uid for batch in loader for uid in batch) == uids(shards)

    samplers = [DistributedSampler(shards, 3, rank, seed=1) for rank in range(3)]

    assert sorted(
        uid for sampler in samplers for uid in uids_of([shards[row] for row in sampler])
    ) == uids(shards)


def uids_of(rows):
    return [int(row.fixed["uid"]) for row in rows]


# Files
# --------------------------------------------------------------------------------------------------


def test_an_opened_set_is_found_from_another_folder_and_keeps_no_file_open(tmp_path, monkeypatch):
    toy_set(tmp_path / "set", [9, 6])
    monkeypatch.chdir(tmp_path)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (counting descriptors, not paths)
    opened = [open_shards("set"), open_shards(Path("set") / "manifest.json")]
    opened.append(JoinedShards(open_shards("./set"), []))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    for shards in opened:
        assert shards.path == tmp_path / "set" / "manifest.json"
        assert len(list(shards)) == 15
        shards.check_files()

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_one_rank_on_each_machine_looks_at_the_files(tmp_path, monkeypatch):
    """It lists the folder once and opens no shard."""
    toy_set(tmp_path, [4] * 20)
    looks = []
    scandir = os.scandir
    open_ = os.open
    monkeypatch.setattr(os, "scandir", lambda path: looks.append("folder") or scandir(path))
    monkeypatch.setattr(
        os,
        "open",
        lambda path, *rest, **more: looks.append(str(path)) or open_(path, *rest, **more),
    )

    by_rank = []

    for rank in range(16):
        opened = open_shards(tmp_path, check_files=False)
        looks.clear()
        Datasets((phase_of([opened]),), {}, {}).check_files(rank, rank % 8)
        by_rank.append([look for look in looks if look == "folder" or "shard-" in look])

    assert by_rank == ([["folder"]] + [[]] * 7) * 2
