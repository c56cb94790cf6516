import multiprocessing
import os
import random
from pathlib import Path

import numpy as np
import pytest
import xxhash
from torch.utils.data import DataLoader, DistributedSampler

from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import DamagedBlock, ManifestError, open_shards
from clozeline.pipeline.shards.column_set import JoinedShards
from tests.shard_sets import TOKENIZER, fixed, list_column, toy_set, write_set


def read_all(folder):
    shards = open_shards(folder)
    return [shards.read_block(block).fixed["uid"].tolist() for block in range(len(shards.index))]


@pytest.mark.parametrize("container", ["arrow", "tar"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_no_flipped_bit_is_silent(tmp_path, container, codec):
    """Bits of blocks, index and manifest: every one is an error, none another sample."""
    shards = toy_set(tmp_path, [9, 6], container=container, codec=codec)
    draw = random.Random(7)
    places = [tmp_path / "index.arrow", tmp_path / "manifest.json"]
    spots = [(path, byte) for path in places for byte in draw.sample(range(path.stat().st_size), 40)]
    for block in range(len(shards.index)):
        start, length = int(shards.index.offset[block]), int(shards.index.length[block])
        path = shards.shard_path(int(shards.index.shard[block]))
        spots += [(path, start + byte) for byte in draw.sample(range(length), 25)]
    for path, byte in spots:
        whole = path.read_bytes()
        broken = bytearray(whole)
        broken[byte] ^= 1 << draw.randrange(8)
        path.write_bytes(broken)
        with pytest.raises((DamagedBlock, ManifestError)):
            read_all(tmp_path)
        path.write_bytes(whole)
    assert len(read_all(tmp_path)) == 5


def test_a_truncated_shard(tmp_path):
    shards = toy_set(tmp_path, [40])
    os.truncate(shards.shard_path(0), 2000)
    with pytest.raises(DamagedBlock, match=r"block 9: expected .* the file is truncated"):
        shards.read_block(9)
    with pytest.raises(ManifestError, match=r"expected .* bytes, got 2000"):
        open_shards(tmp_path)


@pytest.mark.parametrize("container", ["arrow", "tar"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_shard_cut_anywhere(tmp_path, container, codec):
    """Blocks before the cut are read, the others are an exception; a reader of a mapped file would be killed."""
    shards = toy_set(tmp_path, [12], container=container, codec=codec)
    path = shards.shard_path(0)
    whole = path.read_bytes()
    ends = (shards.index.offset + shards.index.length).tolist()
    cuts = [end + change for end in ends for change in (-1, 0)]
    for size in [*range(0, len(whole), 97), *cuts]:
        os.truncate(path, size)
        with pytest.raises(ManifestError, match=f"got {size}; copy it again"):
            open_shards(tmp_path)
        for block, end in enumerate(ends):
            if end <= size:
                assert shards.read_block(block).fixed["uid"].tolist() == list(range(4 * block + 1, 4 * block + 5))
            else:
                with pytest.raises(DamagedBlock, match="the file is truncated"):
                    shards.read_block(block)
        path.write_bytes(whole)


def test_reading_keeps_no_file_open(tmp_path):
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (counting descriptors, not paths)
    shards = toy_set(tmp_path, [4] * 20)
    for block in range(len(shards.index)):
        shards.read_block(block)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_locate(tmp_path):
    shards = toy_set(tmp_path, [10, 0, 1, 7])
    for row in range(18):
        block, place = shards.locate(row)
        assert shards.read_block(block).fixed["uid"][place] == row + 1
    for row in (-1, 18):
        with pytest.raises(IndexError):
            shards.locate(row)


@pytest.mark.parametrize(("size", "good"), [(65536, 65535), (65537, 65536), (1000, 999)])
def test_ids_lie_below_the_vocabulary(tmp_path, size, good):
    spec = list_column("input_ids", "uint16" if size <= 65536 else "uint32")
    tokenizer = {**TOKENIZER, "vocab_size": size}
    for value in (good, good + 1):
        content = Rows(fixed(np.arange(1)), {"input_ids": Ragged.from_lists([[5, value]], np.uint32)})
        if value > np.iinfo(spec.dtype).max:
            continue
        shards = write_set(tmp_path / str(value), [content], columns=[spec], tokenizer=tokenizer)
        if value == good:
            assert shards.read_block(0).columns["input_ids"][0].tolist() == [5, value]
        else:
            with pytest.raises(DamagedBlock, match=f"vocabulary's {size} in input_ids, got {value}"):
                shards.read_block(0)


def test_an_index_that_lies_about_rows(tmp_path, monkeypatch):
    """A block with a good hash whose message holds another number of rows."""
    shards = toy_set(tmp_path, [8])
    entry = shards.index
    object.__setattr__(
        shards, "index", type(entry)(entry.shard, entry.block, entry.offset, entry.length, entry.rows - 1, entry.xxh3)
    )
    with pytest.raises(DamagedBlock, match="3 rows without nulls"):
        shards.read_block(0)
    raw = shards.shard_path(0).read_bytes()
    start = int(entry.offset[0])
    assert xxhash.xxh3_128_digest(raw[start : start + int(entry.length[0])]) == entry.xxh3[0].tobytes()


@pytest.mark.parametrize("container", ["arrow", "tar"])
def test_rows_by_number_and_in_a_loop_are_those_of_the_blocks(tmp_path, container):
    shards = toy_set(tmp_path, [9, 6], container=container)
    blocks = [shards.read_block(block).fixed["uid"] for block in range(len(shards.index))]
    uids = np.concatenate(blocks).tolist()
    assert [int(row.fixed["uid"]) for row in shards] == uids
    order = random.Random(3).sample(range(len(shards)), len(shards))
    assert [int(shards[row].fixed["uid"]) for row in order] == [uids[row] for row in order]
    assert int(shards[-1].fixed["uid"]) == uids[-1]
    assert int(shards[np.int64(2)].fixed["uid"]) == uids[2]


@pytest.mark.parametrize("container", ["arrow", "tar"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_no_reader_changes_the_rows_of_another(tmp_path, container, codec):
    """Masking in place, which would mask the cached block, is an error; so it is where the block was not cached."""
    shards = toy_set(tmp_path, [9, 6], container=container, codec=codec)
    expected = [row["input_ids"].tolist() for row in shards]
    loop = list(shards)
    for row in (*loop, *(shards[number] for number in range(len(shards)))):
        for column in (row["input_ids"], row.fixed["document_uid"]):
            with pytest.raises(ValueError, match="read-only"):
                column[0] = 3
            column.copy()[0] = 3
    assert [shards[number]["input_ids"].tolist() for number in range(len(shards))] == expected


def test_an_opened_set_is_found_from_another_folder(tmp_path, monkeypatch):
    toy_set(tmp_path / "set", [9, 6])
    monkeypatch.chdir(tmp_path)
    opened = [open_shards("set"), open_shards(Path("set") / "manifest.json")]
    opened.append(JoinedShards(open_shards("./set"), []))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for shards in opened:
        assert shards.path == tmp_path / "set" / "manifest.json"
        assert len(list(shards)) == 15
        shards.check_files()


def test_a_set_is_a_dataset_of_torch(tmp_path):
    """In worker processes that are started either way, and divided among ranks: each row once."""
    shards = toy_set(tmp_path, [9, 6])
    uids = sorted(int(row.fixed["uid"]) for row in shards)
    for start, workers in (("fork", 2), ("spawn", 1)):
        context = multiprocessing.get_context(start)
        loader = DataLoader(shards, 4, collate_fn=uids_of, num_workers=workers, multiprocessing_context=context)
        assert sorted(uid for batch in loader for uid in batch) == uids
    samplers = [DistributedSampler(shards, 3, rank, seed=1) for rank in range(3)]
    assert sorted(uid for sampler in samplers for uid in uids_of([shards[row] for row in sampler])) == uids


def uids_of(rows):
    return [int(row.fixed["uid"]) for row in rows]


def test_what_is_no_row_is_said(tmp_path):
    shards = toy_set(tmp_path, [9, 6])
    for row in (15, -16):
        with pytest.raises(IndexError, match="of a set with 15 rows"):
            shards[row]
    for wrong in ("input_ids", slice(2), 1.0, True):
        with pytest.raises(TypeError, match=r"such as shards\[3\], got .*read_block\(0\)"):
            shards[wrong]
    with pytest.raises(TypeError, match="open_shards: expected the path of a manifest or its folder, got 5"):
        open_shards(5)


def test_a_set_says_what_it_holds(tmp_path):
    shards = toy_set(tmp_path, [9, 6])
    assert repr(shards).startswith(f"ShardSet({shards.manifest.name}: 15 rows, ")
    assert f"{tmp_path}/manifest.json" in repr(shards)
    html = shards._repr_html_()
    assert "<dd>15</dd>" in html
    assert all(f"<td>{spec.name}</td>" in html for spec in shards.columns)
