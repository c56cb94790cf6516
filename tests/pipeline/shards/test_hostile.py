"""Blocks and indexes that mislead, with right hashes: nothing in them is believed, no claim takes
memory."""

import contextlib
import hashlib
import random
import struct
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import DamagedBlock, ManifestError, open_shards
from clozeline.pipeline.shards.block import BlockError, arrow_schema, block_bytes, decode, to_batch
from tests.shard_sets import COLUMNS, change_manifest, fixed, rows, toy_set

SCHEMA = arrow_schema(COLUMNS)


def message(content, codec=None):
    options = pa.ipc.IpcWriteOptions(compression=codec)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA, options=options) as writer:
        writer.write_batch(to_batch(content, COLUMNS, SCHEMA))
        end = sink.tell()

    return bytes(sink.getvalue().to_pybytes()[8 + SCHEMA.serialize().size : end])


def test_a_bomb_is_refused_before_memory_is_taken():
    """A few kilobytes that would become 64 MiB."""
    content = RowBatch(
        fixed(np.arange(1)),
        {"input_ids": Ragged(np.zeros(1 << 25, np.uint16), np.array([0, 1 << 25]))},
    )
    stored = message(content, "zstd")

    assert len(stored) < 20_000

    tracemalloc.start()
    arrow = pa.total_allocated_bytes()
    with pytest.raises(BlockError, match="at most 4096 bytes after decompression"):
        decode(stored, COLUMNS, 1, 4096)

    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    assert pa.total_allocated_bytes() - arrow < 1 << 20

    tracemalloc.stop()


def test_a_lying_length_is_refused_before_memory_is_taken():
    """The prefix of a compressed buffer claims another size than the columns give it."""
    content = rows(range(64), [64] * 64)
    stored = message(content, "zstd")

    assert len(decode(stored, COLUMNS, 64, 1 << 20)) == 64

    at = stored.rindex(struct.pack("<q", 64 * 64 * 2))

    for claim in (1 << 40, 1, -1, -2, 64 * 64 * 2 + 65):
        lie = stored[:at] + struct.pack("<q", claim) + stored[at + 8 :]
        with pytest.raises(BlockError, match="a buffer of 8192 bytes"):
            decode(lie, COLUMNS, 64, 1 << 20)


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
def test_arbitrary_damage_is_an_exception_never_a_crash(codec):
    """Without the hash, whatever the bytes: rows within bounds, or `BlockError`."""
    stored = message(rows(range(16), [n % 5 for n in range(16)]), codec)
    draw = random.Random(3)

    for _ in range(3000):
        broken = bytearray(stored)
        for _ in range(draw.choice((1, 2, 8))):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        try:
            found = decode(
                bytes(broken[: draw.choice((len(broken), draw.randrange(len(broken))))]),
                COLUMNS,
                16,
                4096,
            )
        except BlockError:
            continue

        offsets = found.columns["input_ids"].offsets

        assert len(found) == 16
        assert (np.diff(offsets) >= 0).all()
        assert offsets[-1] == len(found.columns["input_ids"].values)


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
def test_only_wanted_columns_are_taken(codec):
    content = rows(range(40), [n % 7 for n in range(40)])
    stored = message(content, codec)
    lists = int(content.columns["input_ids"].lengths.sum())
    size = block_bytes(COLUMNS, 40, [lists])

    assert size == sum(array.nbytes for array in content.fixed.values()) + 4 * 41 + 2 * lists

    found = decode(stored, COLUMNS, 40, size, {"uid", "input_ids"})

    assert (set(found.fixed), set(found.columns)) == ({"uid"}, {"input_ids"})
    assert found.fixed["uid"].tolist() == list(range(40))
    assert (
        found.columns["input_ids"].values.tolist() == content.columns["input_ids"].values.tolist()
    )

    inside = np.shares_memory(found.fixed["uid"], np.frombuffer(stored, np.uint8))

    assert inside == (codec is None), "what is not compressed is a view of the stored bytes"

    with pytest.raises(BlockError, match=f"at most {size - 1} bytes"):
        decode(stored, COLUMNS, 40, size - 1, {"uid"})


# Index
# --------------------------------------------------------------------------------------------------

NAMES = ["shard", "block", "offset", "length", "rows", "xxh3"]


def index_of(folder):
    with pa.OSFile(str(folder / "index.arrow")) as file:
        return pa.ipc.open_file(file).read_all()


def put_index(folder, raw):
    """Replace the index, and say so in the manifest."""
    (folder / "index.arrow").write_bytes(raw)
    facts = {
        "path": "index.arrow",
        "sha256": hashlib.sha256(raw).hexdigest(),
        "bytes": len(raw),
    }
    change_manifest(folder, lambda manifest: manifest.update(index=facts))


def arrow_file(table, *, most=None, codec=None):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)
    ) as writer:
        writer.write_table(table, max_chunksize=most)

    return bytes(sink.getvalue().to_pybytes())


def with_values(table, name, values):
    place = NAMES.index(name)
    return table.set_column(
        place, table.schema.field(place), pa.array(values, table.schema.field(place).type)
    )


@pytest.fixture
def folder(tmp_path):
    """A set of four blocks: rows 4 4 2 and 3 in two shards."""
    toy_set(tmp_path, [10, 3])
    return tmp_path


def test_its_columns_are_plain_arrow(folder):
    """Return the index as a reader in another language finds it: 40 bytes a block."""
    table = index_of(folder)
    types = ["uint32", "uint32", "uint64", "uint32", "uint32", "fixed_size_binary[16]"]

    assert [
        (
            field.name,
            str(field.type),
            field.nullable,
        )
        for field in table.schema
    ] == [(name, kind, False) for name, kind in zip(NAMES, types, strict=True)]
    assert sum(field.type.bit_width for field in table.schema) == 8 * 40
    assert table.select(["shard", "block", "rows"]).to_pydict() == {
        "shard": [0, 0, 0, 1],
        "block": [0, 1, 2, 0],
        "rows": [4, 4, 2, 3],
    }


@pytest.mark.parametrize("sizes", [[], [0], [0, 0]])
def test_a_set_without_rows_has_an_empty_index(tmp_path, sizes):
    shards = toy_set(tmp_path, sizes)
    assert (
        len(shards),
        len(shards.index),
        shards.index.xxh3.shape,
    ) == (0, 0, (0, 16))


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("offset", [None, None, None, 2**63], "lies outside"),
        ("offset", [None, None, None, 2**64 - 1], "lies outside"),
        ("length", [2**32 - 1, None, None, None], "lies outside"),
        ("length", [None, None, None, 0], "lies outside"),
        ("rows", [4, 2, 4, 3], "4 rows in block 1, got 2"),
        ("rows", [4, 4, 2, 0], "4 rows in block 3, got 0"),
        ("rows", [4, 4, 3, 2], "as many rows of each shard"),
        ("rows", [2**32 - 1, None, None, None], "4 rows in block 0, got 4294967295"),
        ("shard", [0, 0, 0, 2], "2 shards in order"),
        ("shard", [0, 0, 0, 0], "2 shards in order"),
        ("block", [0, 2, 1, 0], "in order"),
    ],
)
def test_entries_that_cannot_be_right(folder, name, values, message):
    table = index_of(folder)
    kept = table[name].to_pylist()
    values = [old if new is None else new for old, new in zip(kept, values, strict=True)]
    put_index(folder, arrow_file(with_values(table, name, values)))
    with pytest.raises(ManifestError, match=message):
        open_shards(folder)


def test_a_block_named_twice_is_refused(folder):
    """The same rows would come twice and others never, and every hash would agree."""
    table = index_of(folder)
    for name in ("offset", "length", "xxh3"):
        first, _, *rest = table[name].to_pylist()
        table = with_values(table, name, [first, first, *rest])

    put_index(folder, arrow_file(table))
    with pytest.raises(ManifestError, match="share bytes of a shard"):
        open_shards(folder)


def test_other_tables_are_no_index(folder):
    table = index_of(folder)
    nullable = pa.schema([pa.field(field.name, field.type) for field in table.schema])
    columns = [
        pa.array([None, 0, 0, 1], pa.uint32()),
        *(column.combine_chunks() for column in table.columns[1:]),
    ]
    absent = pa.Table.from_batches([pa.RecordBatch.from_arrays(columns, schema=table.schema)])
    for raw, message in [
        (arrow_file(table.rename_columns([*NAMES[:-1], "hash"])), "the columns"),
        (arrow_file(table.cast(nullable)), "the columns"),
        (
            arrow_file(with_values(table, "offset", [1, 2, 3, 4]).drop_columns(["xxh3"])),
            "the columns",
        ),
        (arrow_file(absent), "with 1 nulls"),
        (arrow_file(table, most=2), "4 rows without nulls in shard, got 2"),
        (arrow_file(table.slice(0, 3)), "4 rows without nulls in shard, got 3"),
        (b"ARROW1\0\0", "4 blocks"),
        (bytes(2000), "an Arrow file"),
        (b"", "at least 160 bytes"),
    ]:
        put_index(folder, raw)
        with pytest.raises(ManifestError, match=message):
            open_shards(folder)


def test_a_bomb_of_an_index_is_refused_before_memory_is_taken(folder):
    """Some kilobytes that would become 400 MB."""
    rows = 10_000_000
    wide = pa.py_buffer(np.zeros(2 * rows, np.uint64))
    schema = index_of(folder).schema
    columns = [pa.Array.from_buffers(field.type, rows, [None, wide]) for field in schema]
    bomb = arrow_file(pa.table(columns, schema=schema), codec="zstd")

    assert len(bomb) < 100_000

    del columns, wide
    put_index(folder, bomb)
    arrow = pa.default_memory_pool().max_memory()
    tracemalloc.start()
    with pytest.raises(ManifestError, match="got 10000000"):
        open_shards(folder)

    assert pa.default_memory_pool().max_memory() - arrow < 1 << 20
    assert tracemalloc.get_traced_memory()[1] < 4 << 20

    tracemalloc.stop()
    # A manifest that agrees with the bomb would need as many bytes of index.
    change_manifest(
        folder, lambda m: (m["totals"].update(blocks=rows), m["shards"][0].update(blocks=rows - 1))
    )
    with pytest.raises(ManifestError, match="expected at least 400000000 bytes"):
        open_shards(folder)


def test_arbitrary_damage_ends_in_one_message(folder):
    """Also without the hash: whatever the bytes, an error of ours, or the rows that were
    written."""
    raw = (folder / "index.arrow").read_bytes()
    draw = random.Random(5)

    for _ in range(400):
        broken = bytearray(raw)
        for _ in range(draw.choice((1, 2, 8))):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        put_index(folder, bytes(broken[: draw.choice((len(broken), draw.randrange(len(broken))))]))

        with contextlib.suppress(ManifestError, DamagedBlock):
            shards = open_shards(folder)
            found = [
                uid for block in range(4) for uid in shards.read_block(block).fixed["uid"].tolist()
            ]
            assert found == list(range(1, 14))
