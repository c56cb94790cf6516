"""Readers that know nothing of Clozeline read every row of a set, in both containers, compressed or
not."""

import io

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pytest
import webdataset

from clozeline.pipeline.rows import Ragged
from tests.shard_sets import IDS, list_column, rows, write_set

TYPES = {"order": "uint16", "sentence_starts": "uint32", "attention": "uint8", "partner": "uint64"}
COLUMNS = [
    IDS,
    *(list_column(name, dtype) for name, dtype in TYPES.items()),
]
SIZES = {
    "an empty shard": [10, 0, 7],
    "full blocks": [8, 4],
    "many empty ones": [0, 0, 1, 0],
}


def content(uids):
    """Rows whose lists differ in length, and come to none."""
    made = rows(uids, [uid % 5 * 3 for uid in uids])

    for name, dtype in TYPES.items():
        lists = [
            [] if name == "partner" else [70_000 + uid if dtype == "uint32" else uid] * (uid % 3)
            for uid in uids
        ]
        made.columns[name] = Ragged.from_lists(lists, dtype)

    return made


def plain(row):
    """A row as Arrow gives it."""
    fixed = {
        name: value.tobytes() if value.ndim else int(value) for name, value in row.fixed.items()
    }
    return {**fixed, **{name: values.tolist() for name, values in row.columns.items()}}


def build(folder, sizes, container, codec):
    """Write the set; paths of its shards, and all rows in order."""
    ends = np.cumsum([1, *sizes]).tolist()
    shards = [content(range(start, start + size)) for start, size in zip(ends, sizes, strict=False)]
    made = write_set(folder, shards, columns=COLUMNS, container=container, codec=codec)
    return [str(made.shard_path(number)) for number in range(len(shards))], [
        plain(row) for one in shards for row in one
    ]


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
    "pyarrow.dataset": lambda paths, folder: (
        pyarrow.dataset.dataset(paths, format="ipc").to_table().to_pylist()
    ),
    "datasets": by_datasets,
    "webdataset": by_webdataset,
}


@pytest.mark.filterwarnings(
    "ignore:unclosed file:ResourceWarning"
)  # webdataset leaves closing to the interpreter
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("reader", READERS)
def test_every_row_is_read(tmp_path, reader, codec, sizes):
    datasets.disable_progress_bars()
    paths, expected = build(
        tmp_path / "set", sizes, "tar" if reader == "webdataset" else "arrow", codec
    )
    assert READERS[reader](paths, tmp_path) == expected


def test_what_a_reader_is_told(tmp_path):
    """Types as they are documented; nothing that only some readers understand."""
    (path,), _ = build(tmp_path, [3], "arrow", "zstd")
    with pa.ipc.open_file(path) as reader:
        schema = reader.schema

    assert [str(field.type) for field in schema] == [
        *("uint64", "uint16", "fixed_size_binary[16]", "uint32", "uint8", "uint8", "uint8"),
        *(
            f"list<item: {kind} not null>"
            for kind in ("uint16", "uint16", "uint32", "uint8", "uint64")
        ),
    ]
    assert not any(field.nullable or field.metadata for field in schema)
    assert schema.metadata == {b"clozeline.format": b"1"}
