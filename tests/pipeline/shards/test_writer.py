"""Writing a set: rows come back, bytes depend on the rows alone, and what a container is made
of."""

import json
import tarfile
from itertools import pairwise
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.columns import WEIGHT, Feature
from clozeline.errors import IntegrityError, StorageError
from clozeline.pipeline.block_options import Codec, Compression
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import (
    ColumnSpec,
    SetWriter,
    ShardInfo,
    auto_block_rows,
    feature_columns,
    open_shards,
    write_shard,
)
from clozeline.pipeline.shards.manifest import SHARD_LIMIT
from tests.refusals import refused
from tests.shard_sets import COLUMNS, IDS, list_column, rows, toy_set, write_set

FORMS = [(container, codec) for container in ("arrow", "tar") for codec in get_args(Codec)]
forms = pytest.mark.parametrize(("container", "codec"), FORMS)


def read(shards):
    return RowBatch.concatenate([shards.read_block(block) for block in range(len(shards.index))])


def bytes_of(found):
    lists = {
        name: part
        for name, ragged in found.columns.items()
        for part in (ragged.values, ragged.lengths)
    }

    arrays = [*found.fixed.items(), *lists.items()]
    return [(name, array.dtype.str, array.tobytes()) for name, array in arrays]


@forms
@pytest.mark.parametrize(
    "lengths",
    [
        [1 + n % 5 for n in range(23)],
        [100_000, 1, 3, 65_537, 100_001],
    ],
)
def test_rows_come_back_to_the_last_bit(tmp_path, container, codec, lengths):
    content = rows(range(1, len(lengths) + 1), lengths)
    weights = np.resize(
        np.array(
            [
                1 / 3,
                65_000,
                1,
                7 / 6,
                2**-20,
                3,
                1.25,
            ],
            np.float32,
        ),
        len(lengths),
    )
    content.columns["label_weight"] = Ragged(weights, np.arange(len(lengths) + 1))
    weight = feature_columns([Feature("label_weight", "float32", WEIGHT, "weight")], 1000)
    shards = write_set(
        tmp_path, [content], columns=[IDS, *weight], container=container, codec=codec
    )

    assert shards.index.rows.tolist() == [4] * (len(lengths) // 4) + [len(lengths) % 4]
    assert bytes_of(read(shards)) == bytes_of(content)
    assert shards.columns[-1].arrow_type == "list<float32>"
    assert shards.manifest.max_length == max(lengths)


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(1, 9), max_size=9), max_size=8),
    st.integers(1, 7),
    st.sampled_from(FORMS),
)
def test_portions_do_not_matter(tmp_path_factory, portions, block_rows, form):
    """Bytes depend on the rows, never on the portions they come in.

    And what is read is what was written.
    """
    folder = tmp_path_factory.mktemp("portions")
    lengths = [length for portion in portions for length in portion]
    count = len(lengths)
    content = rows(range(1, count + 1), lengths)
    parts = [
        content.cut(start, stop)
        for start, stop in pairwise(np.cumsum([0, *map(len, portions)]).tolist())
    ]
    options = {"block_rows": block_rows, "container": form[0], "codec": form[1]}
    whole = write_shard(folder / "a", content, COLUMNS, **options)

    assert write_shard(folder / "b", iter(parts), COLUMNS, name="a", **options) == whole
    assert (folder / "a").read_bytes() == (folder / "b").read_bytes()

    sizes = [min(block_rows, count - start) for start in range(0, count, block_rows)]

    assert [block.rows for block in whole.blocks] == sizes

    shards = write_set(folder / "set", [content], **options)

    assert not count or bytes_of(read(shards)) == bytes_of(content)
    assert len(shards) == count


def test_a_record_of_a_shard_survives_json(tmp_path):
    info = write_shard(
        tmp_path / "x.part", rows(range(9), 4), COLUMNS, block_rows=4, name="x.arrow"
    )

    assert (
        info.path,
        info.rows,
        info.tokens,
        info.longest,
    ) == ("x.arrow", 9, 36, 4)
    assert info.largest_block == 4 * (8 + 2 + 16 + 4 + 1 + 1 + 1) + 4 * 5 + 4 * 4 * 2
    assert ShardInfo.from_json(json.loads(json.dumps(info.to_json()))) == info

    with pytest.raises(IntegrityError, match="not the record"):
        ShardInfo.from_json({"path": "x"})


def test_rows_of_a_block_follow_the_row_size(tmp_path):
    assert [auto_block_rows(size) for size in (1, 2184, 2185, 10_000, 10**6)] == [
        1920,
        1920,
        960,
        240,
        60,
    ]

    with pytest.raises(IntegrityError, match="block_rows"):
        write_shard(tmp_path / "x", rows([1], 1), COLUMNS, block_rows=0)


# Containers
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", get_args(Codec))
def test_bytes_of_an_arrow_shard(tmp_path, codec):
    """Magic, schema, the blocks one after the other, the end mark, the footer: nothing else."""
    shards = toy_set(tmp_path, [10], codec=codec)
    raw = shards.shard_path(0).read_bytes()
    starts, lengths = (
        column.astype(int).tolist() for column in (shards.index.offset, shards.index.length)
    )
    with pa.ipc.open_file(raw) as reader:
        assert starts[0] == 8 + reader.schema.serialize().size

    assert (raw[:8], raw[-6:]) == (b"ARROW1\0\0", b"ARROW1")
    assert all(start % 8 == 0 and raw[start : start + 4] == b"\xff" * 4 for start in starts)

    ends = [start + length for start, length in zip(starts, lengths, strict=True)]

    assert ends[:-1] == starts[1:]
    assert raw[ends[-1] : ends[-1] + 8] == b"\xff\xff\xff\xff\0\0\0\0"
    assert ends[-1] + 8 + int.from_bytes(raw[-10:-6], "little") + 10 == len(raw)


def test_bytes_of_a_tar_shard(tmp_path):
    """No time, no owner, no header besides the members' own; the index points into the members."""
    shards = toy_set(tmp_path, [10], container="tar")
    path = shards.shard_path(0)
    with tarfile.open(path) as archive:
        entries = archive.getmembers()

    assert [entry.name for entry in entries] == [
        "00000000.arrow",
        "00000001.arrow",
        "00000002.arrow",
    ]

    for entry, start, length in zip(entries, shards.index.offset, shards.index.length, strict=True):
        facts = (
            entry.mode,
            entry.mtime,
            entry.uid,
            entry.gid,
            entry.uname,
            entry.gname,
            entry.pax_headers,
        )

        assert facts == (0o644, 0, 0, 0, "", "", {})
        assert entry.offset_data == entry.offset + 512
        assert entry.offset_data < start < start + length < entry.offset_data + entry.size

    raw = path.read_bytes()

    assert {raw[entry.offset + 257 : entry.offset + 265] for entry in entries} == {b"ustar\x0000"}
    assert len(raw) % 10240 == 0
    assert not any(raw[entries[-1].offset_data + -(-entries[-1].size // 512) * 512 :])


@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        ("writer._MEMBER_LIMIT", 1000, "tar member 0 of .* bytes: write smaller blocks"),
        ("writer._BLOCKS_LIMIT", 2, "tar member 2 "),
        ("block._LIST_LIMIT", 31, "input_ids: 32 values in one block; use smaller blocks"),
        ("index._LENGTH_LIMIT", 300, "write smaller blocks"),
    ],
)
def test_what_a_format_cannot_count_is_refused(tmp_path, monkeypatch, limit, value, message):
    monkeypatch.setattr(f"clozeline.pipeline.shards.{limit}", value)
    with pytest.raises(IntegrityError, match=message):
        toy_set(tmp_path, [10], container="tar")
    assert not (tmp_path / "manifest.json").exists()


# Sets whose shards are written by units in any order
# ------------------------------------------------------------------

NUMBERED = [ColumnSpec("number", "uint16", "fixed", "a number"), list_column("ids")]


def write(folder, path, order):
    tokenizer = {
        "name": "word",
        "fingerprint": "ab" * 32,
        "vocab_size": 9,
        "special_ids": {},
        "sentinels": [],
    }

    writer = SetWriter(path, 3, NUMBERED, block_rows=2, compression=Compression(codec="none"))

    for shard in order:
        assert not writer.is_written(Output(folder), shard)
        numbers = np.arange(10 * shard, 10 * shard + 5, dtype=np.uint16)
        ids = Ragged.from_lists([[shard] * 3] * 5, np.uint16)
        writer.write_shard(Output(folder), shard, RowBatch({"number": numbers}, {"ids": ids}))
        assert writer.is_written(Output(folder), shard)

    with pytest.raises(StorageError, match="not a shard set"):
        open_shards(folder / path)
    for _ in range(2):  # a merge that is done again ends the same
        writer.write_manifest(
            Output(folder), name="toy", kind="tokens", seed=1, tokenizer=tokenizer
        )

    assert sorted(file.name for file in (folder / path).iterdir() if file.suffix) == [
        "index.arrow",
        "manifest.json",
        *(f"shard-{shard:05d}-of-00003.arrow" for shard in range(3)),
    ]

    return folder / path


@pytest.mark.parametrize("path", ["set/train", ""])
def test_shards_stand_in_their_order_whatever_the_order_of_writing(tmp_path, path):
    there = write(tmp_path / "a", path, [0, 1, 2])
    back = write(tmp_path / "b", path, [2, 0, 1])
    shards = open_shards(there)
    numbers = [
        shards.read_block(block).fixed["number"].tolist() for block in range(len(shards.index))
    ]

    assert numbers == [[0, 1], [2, 3], [4], [10, 11], [12, 13], [14], [20, 21], [22, 23], [24]]
    assert shards.manifest.compression.codec == "none"
    assert (there / "manifest.json").read_bytes() == (back / "manifest.json").read_bytes()


def test_more_shards_than_a_manifest_may_list_are_refused_before_the_first_is_written():
    SetWriter("set/train", SHARD_LIMIT, NUMBERED, block_rows=2)

    with refused(r"set/train: 100001 shards, the limit is 100000: .*variants"):
        SetWriter("set/train", SHARD_LIMIT + 1, NUMBERED, block_rows=2)
