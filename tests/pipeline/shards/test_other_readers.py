"""Readers that know nothing of Clozeline read every row of a set, in both containers, compressed or not."""

import io
from dataclasses import replace

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pytest
import webdataset

from clozeline.pipeline.rows import UNDO, Ragged, Rows
from tests.shard_sets import IDS, fixed, ids_of, list_column, write_set

COLUMNS = [
    IDS,
    replace(list_column("label_ids"), role=UNDO),
    list_column("sentence_starts", "uint32"),
    list_column("attention", "uint8"),
    list_column("partner", "uint64"),
]
SIZES = {"an empty shard": [10, 0, 7], "full blocks": [8, 4], "many empty ones": [0, 0, 1, 0]}


def lists(uid):
    """The list columns of a row; lengths differ, and come to none."""
    return {
        "input_ids": ids_of(uid, uid % 5 * 3).tolist(),
        "label_ids": [uid] * (uid % 3 if uid < 5 else 0),
        "sentence_starts": [0, 70_000 + uid],
        "attention": [uid % 4],
        "partner": [],
    }


def content(uids):
    every = [lists(uid) for uid in uids]
    values = {spec.name: [row[spec.name] for row in every] for spec in COLUMNS}
    columns = {spec.name: Ragged.from_lists(values[spec.name], spec.dtype) for spec in COLUMNS}
    return Rows(fixed(np.array(uids, np.uint64)), columns)


def expected(sizes):
    """All rows in order, as plain data."""
    rows, first = [], 1
    for size in sizes:
        for place in range(size):
            zeros = dict.fromkeys(("variant", "copy", "part", "language"), 0)
            facts = {"document_uid": bytes(range(16)), "document_offset": place, **zeros}
            rows.append({"uid": first + place, **facts, **lists(first + place)})
        first += size
    return rows


def build(folder, sizes, container, codec):
    """Write the set; paths of its shards."""
    ends = np.cumsum([1, *sizes]).tolist()
    shards = [content(range(start, start + size)) for start, size in zip(ends, sizes, strict=False)]
    made = write_set(folder, shards, columns=COLUMNS, container=container, codec=codec)
    return [str(made.shard_path(number)) for number in range(len(shards))]


def batches_of(file):
    with pa.ipc.open_file(file) as reader:
        return reader.read_all().to_pylist()


def by_datasets(paths, folder):
    return list(datasets.load_dataset("arrow", data_files=paths, split="train", streaming=True))


def by_webdataset(paths, folder):
    members = webdataset.WebDataset(paths, shardshuffle=False, empty_check=False)
    return [row for member in members for row in batches_of(io.BytesIO(member["arrow"]))]


READERS = {
    "pyarrow": lambda paths, folder: [row for path in paths for row in batches_of(path)],
    "pyarrow.dataset": lambda paths, folder: pyarrow.dataset.dataset(paths, format="ipc").to_table().to_pylist(),
    "datasets": by_datasets,
    "webdataset": by_webdataset,
}


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # webdataset leaves closing to the interpreter
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("reader", READERS)
def test_every_row_is_read(tmp_path, reader, codec, sizes):
    datasets.disable_progress_bars()
    paths = build(tmp_path / "set", sizes, "tar" if reader == "webdataset" else "arrow", codec)
    assert READERS[reader](paths, tmp_path) == expected(sizes)


def test_what_a_reader_is_told(tmp_path):
    """Types as they are documented; nothing that only some readers understand."""
    (path,) = build(tmp_path, [3], "arrow", "zstd")
    with pa.ipc.open_file(path) as reader:
        schema = reader.schema
    assert [str(field.type) for field in schema] == [
        *("uint64", "uint16", "fixed_size_binary[16]", "uint32", "uint8", "uint8", "uint8"),
        *(f"list<item: {kind} not null>" for kind in ("uint16", "uint16", "uint32", "uint8", "uint64")),
    ]
    assert not any(field.nullable or field.metadata for field in schema)
    assert schema.metadata == {b"clozeline.format": b"1"}
