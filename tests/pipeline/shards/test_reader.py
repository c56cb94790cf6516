from __future__ import annotations

import os
import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from pipeline.errors import StorageError
from pipeline.rows import Ragged, Rows
from pipeline.shards import DamagedBlock, ManifestError, fixed_columns, open_shards
from pipeline.shards.block import BlockError, decode
from pipeline.shards.columns import ColumnSpec, arrow_schema, to_batch
from tests.shard_sets import IDS, TOKENIZER, fixed, rows, toy_set, write_set

COLUMNS = [*fixed_columns(), IDS]
SCHEMA = arrow_schema(COLUMNS)


def read_all(folder: Path) -> list[list[int]]:
    shards = open_shards(folder)
    return [shards.read_block(block).fixed["uid"].tolist() for block in range(len(shards.index))]


@pytest.mark.parametrize("container", ["arrow", "tar"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_no_flipped_bit_is_silent(tmp_path: Path, container: str, codec: str) -> None:
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


@pytest.mark.parametrize("container", ["arrow", "tar"])
def test_bytes_outside_the_blocks_are_checked_with_the_whole_file(tmp_path: Path, container: str) -> None:
    shards = toy_set(tmp_path, [9], container=container)
    path = shards.shard_path(0)
    whole = path.read_bytes()
    for byte in (0, 9, 100, len(whole) - 1):
        broken = bytearray(whole)
        broken[byte] ^= 4
        path.write_bytes(broken)
        read_all(tmp_path)  # the stream never reads these bytes
        with pytest.raises(ManifestError, match="SHA-256"):
            open_shards(tmp_path, verify="shard")
    path.write_bytes(whole)
    open_shards(tmp_path, verify="shard")


def test_a_truncated_shard(tmp_path: Path) -> None:
    shards = toy_set(tmp_path, [40])
    os.truncate(shards.shard_path(0), 2000)
    with pytest.raises(DamagedBlock, match=r"block 9: expected .* the file is truncated"):
        shards.read_block(9)
    with pytest.raises(ManifestError, match=r"expected .* bytes, got 2000"):
        open_shards(tmp_path)


@pytest.mark.parametrize("container", ["arrow", "tar"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_shard_cut_anywhere(tmp_path: Path, container: str, codec: str) -> None:
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


def test_a_missing_shard(tmp_path: Path) -> None:
    shards = toy_set(tmp_path, [4, 4])
    shards.shard_path(1).unlink()
    with pytest.raises(ManifestError, match=r"shard-00001-of-00002\.arrow.*no such file"):
        open_shards(tmp_path)
    with pytest.raises(DamagedBlock, match="No such file"):
        shards.read_block(1)


def test_a_folder_without_a_manifest_is_no_set(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no shard set here"):
        open_shards(tmp_path)


def test_reading_keeps_no_file_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (counting descriptors, not paths)
    shards = toy_set(tmp_path, [4] * 20)
    for block in range(len(shards.index)):
        shards.read_block(block)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_locate(tmp_path: Path) -> None:
    shards = toy_set(tmp_path, [10, 0, 1, 7])
    for row in range(18):
        block, place = shards.locate(row)
        assert shards.read_block(block).fixed["uid"][place] == row + 1
    for row in (-1, 18):
        with pytest.raises(IndexError):
            shards.locate(row)


@pytest.mark.parametrize(("size", "good"), [(65536, 65535), (65537, 65536), (1000, 999)])
def test_ids_lie_below_the_vocabulary(tmp_path: Path, size: int, good: int) -> None:
    spec = ColumnSpec("input_ids", "uint16" if size <= 65536 else "uint32", "list", "")
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


def message(content: Rows, codec: str | None = None) -> bytes:
    options = pa.ipc.IpcWriteOptions(compression=codec)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA, options=options) as writer:
        writer.write_batch(to_batch(content, COLUMNS, SCHEMA))
        end = sink.tell()
    return bytes(sink.getvalue().to_pybytes()[8 + SCHEMA.serialize().size : end])


def test_a_bomb_is_refused_before_memory_is_taken() -> None:
    """A few kilobytes that would become 64 MiB."""
    content = Rows(fixed(np.arange(1)), {"input_ids": Ragged(np.zeros(1 << 25, np.uint16), np.array([0, 1 << 25]))})
    stored = message(content, "zstd")
    assert len(stored) < 20_000
    tracemalloc.start()
    arrow = pa.total_allocated_bytes()
    with pytest.raises(BlockError, match="at most 4096 bytes after decompression"):
        decode(stored, COLUMNS, 1, 4096)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    assert pa.total_allocated_bytes() - arrow < 1 << 20
    tracemalloc.stop()


def test_a_lying_length_is_refused_before_memory_is_taken() -> None:
    """The prefix of a compressed buffer claims another size than the columns give it."""
    content = rows(range(64), [64] * 64)
    stored = message(content, "zstd")
    assert len(decode(stored, COLUMNS, 64, 1 << 20)) == 64
    at = stored.rindex(struct.pack("<q", 64 * 64 * 2))
    for claim in (1 << 40, 1, -1, -2, 64 * 64 * 2 + 65):
        lie = stored[:at] + struct.pack("<q", claim) + stored[at + 8 :]
        with pytest.raises(BlockError, match="a buffer of 8192 bytes"):
            decode(lie, COLUMNS, 64, 1 << 20)


def test_rows_and_columns_must_be_those_of_the_set() -> None:
    stored = message(rows(range(5), 3))
    with pytest.raises(BlockError, match="6 rows without nulls"):
        decode(stored, COLUMNS, 6, 1 << 20)
    with pytest.raises(BlockError, match="7 columns of the manifest"):
        decode(stored, COLUMNS[:-1], 5, 1 << 20)


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_arbitrary_damage_is_an_exception_never_a_crash(codec: str | None) -> None:
    """Without the hash, whatever the bytes: rows within bounds, or `BlockError`."""
    stored = message(rows(range(16), [n % 5 for n in range(16)]), codec)
    draw = random.Random(3)
    for _ in range(3000):
        broken = bytearray(stored)
        for _ in range(draw.choice((1, 2, 8))):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        try:
            found = decode(bytes(broken[: draw.choice((len(broken), draw.randrange(len(broken))))]), COLUMNS, 16, 4096)
        except BlockError:
            continue
        offsets = found.columns["input_ids"].offsets
        assert len(found) == 16
        assert (np.diff(offsets) >= 0).all()
        assert offsets[-1] == len(found.columns["input_ids"].values)


def test_an_index_that_lies_about_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block with a good hash whose message holds another number of rows."""
    shards = toy_set(tmp_path, [8])
    entry: Any = shards.index
    object.__setattr__(
        shards, "index", type(entry)(entry.shard, entry.block, entry.offset, entry.length, entry.rows - 1, entry.xxh3)
    )
    with pytest.raises(DamagedBlock, match="3 rows without nulls"):
        shards.read_block(0)
    raw = shards.shard_path(0).read_bytes()
    start = int(entry.offset[0])
    assert xxhash.xxh3_128_digest(raw[start : start + int(entry.length[0])]) == entry.xxh3[0].tobytes()
