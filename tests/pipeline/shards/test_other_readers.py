"""Readers that know nothing of Clozeline read every row of a set, in both containers, compressed or not."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pytest
import webdataset

from pipeline.rows import Ragged, Rows
from pipeline.shards import ColumnSpec, ShardSet
from tests.shard_sets import IDS, fixed, ids_of, toy_set, write_set

Found = list[dict[str, Any]]

COLUMNS = [
    IDS,
    ColumnSpec("label_ids", "uint16", "list", "empty in some blocks, and in all of the last shard"),
    ColumnSpec("sentence_starts", "uint32", "list", "beyond 16 bits"),
    ColumnSpec("attention", "uint8", "list", "one value a row"),
    ColumnSpec("partner", "uint64", "list", "never a value"),
]
SIZES = {"an empty shard": [10, 0, 7], "one row": [1], "full blocks": [8, 4], "many empty ones": [0, 0, 3, 0]}


def lists(uid: int) -> dict[str, list[int]]:
    """The list columns of a row; lengths differ, and come to none."""
    return {
        "input_ids": ids_of(uid, uid % 5 * 3).tolist(),
        "label_ids": [uid] * (uid % 3 if uid < 5 else 0),
        "sentence_starts": [0, 70_000 + uid],
        "attention": [uid % 4],
        "partner": [],
    }


def content(uids: Sequence[int]) -> Rows:
    every = [lists(uid) for uid in uids]
    values = {spec.name: [row[spec.name] for row in every] for spec in COLUMNS}
    columns = {spec.name: Ragged.from_lists(values[spec.name], spec.dtype) for spec in COLUMNS}
    return Rows(fixed(np.array(uids, np.uint64)), columns)


def expected(sizes: Sequence[int]) -> Found:
    """All rows in order, as plain data."""
    rows, first = [], 1
    for size in sizes:
        for place in range(size):
            zeros = dict.fromkeys(("variant", "copy", "part", "language"), 0)
            facts = {"document_uid": bytes(range(16)), "document_offset": place, **zeros}
            rows.append({"uid": first + place, **facts, **lists(first + place)})
        first += size
    return rows


def build(folder: Path, sizes: Sequence[int], container: str, codec: str) -> list[str]:
    """Write the set; paths of its shards."""
    ends = np.cumsum([1, *sizes]).tolist()
    shards = [content(range(start, start + size)) for start, size in zip(ends, sizes, strict=False)]
    return paths_of(write_set(folder, shards, columns=COLUMNS, container=container, codec=codec))


def paths_of(shards: ShardSet) -> list[str]:
    return [str(shards.shard_path(number)) for number in range(len(shards.manifest.shards))]


def batches_of(file: Any) -> Found:
    with pa.ipc.open_file(file) as reader:
        rows: Found = reader.read_all().to_pylist()
    return rows


def by_pyarrow(paths: list[str], folder: Path) -> Found:
    return [row for path in paths for row in batches_of(path)]


def by_pyarrow_mapped(paths: list[str], folder: Path) -> Found:
    return [row for path in paths for row in batches_of(pa.memory_map(path))]


def by_pyarrow_dataset(paths: list[str], folder: Path) -> Found:
    rows: Found = pyarrow.dataset.dataset(paths, format="ipc").to_table().to_pylist()
    return rows


def by_datasets_streaming(paths: list[str], folder: Path) -> Found:
    return list(datasets.load_dataset("arrow", data_files=paths, split="train", streaming=True))


def by_datasets(paths: list[str], folder: Path) -> Found:
    return list(datasets.load_dataset("arrow", data_files=paths, split="train", cache_dir=str(folder / "cache")))


def by_webdataset(paths: list[str], folder: Path) -> Found:
    members = webdataset.WebDataset(paths, shardshuffle=False, empty_check=False)
    return [row for member in members for row in batches_of(io.BytesIO(member["arrow"]))]


def by_tarfile(paths: list[str], folder: Path) -> Found:
    rows: Found = []
    for path in paths:
        with tarfile.open(path) as archive:
            for entry in archive:
                rows += batches_of(archive.extractfile(entry))
    return rows


READERS: dict[str, list[Callable[[list[str], Path], Found]]] = {
    "arrow": [by_pyarrow, by_pyarrow_mapped, by_pyarrow_dataset, by_datasets_streaming, by_datasets],
    "tar": [by_webdataset, by_tarfile],
}


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # webdataset leaves closing to the interpreter
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize(("container", "reader"), [(kind, each) for kind, some in READERS.items() for each in some])
def test_every_row_is_read(
    tmp_path: Path, container: str, reader: Callable[[list[str], Path], Found], codec: str, sizes: list[int]
) -> None:
    datasets.disable_progress_bars()
    paths = build(tmp_path / "set", sizes, container, codec)
    assert reader(paths, tmp_path) == expected(sizes)


def test_what_a_reader_is_told(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_bytes_of_an_arrow_shard(tmp_path: Path, codec: str) -> None:
    """Magic, schema, the blocks one behind the other, the end mark, the footer: nothing else."""
    shards = toy_set(tmp_path, [10], codec=codec)
    raw = shards.shard_path(0).read_bytes()
    starts, lengths = (column.astype(int).tolist() for column in (shards.index.offset, shards.index.length))
    with pa.ipc.open_file(raw) as reader:
        assert starts[0] == 8 + reader.schema.serialize().size
    assert (raw[:8], raw[-6:]) == (b"ARROW1\0\0", b"ARROW1")
    assert all(start % 8 == 0 and raw[start : start + 4] == b"\xff" * 4 for start in starts)
    ends = [start + length for start, length in zip(starts, lengths, strict=True)]
    assert ends[:-1] == starts[1:]
    assert raw[ends[-1] : ends[-1] + 8] == b"\xff\xff\xff\xff\0\0\0\0"
    footer = int.from_bytes(raw[-10:-6], "little")
    assert ends[-1] + 8 + footer + 10 == len(raw)


def test_bytes_of_a_tar_shard(tmp_path: Path) -> None:
    """No time, no owner, no header beside the members' own; the index points into the members."""
    shards = toy_set(tmp_path, [10], container="tar")
    path = shards.shard_path(0)
    with tarfile.open(path) as archive:
        entries = archive.getmembers()
    assert [entry.name for entry in entries] == ["00000000.arrow", "00000001.arrow", "00000002.arrow"]
    for entry, start, length in zip(entries, shards.index.offset, shards.index.length, strict=True):
        facts = (entry.mode, entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname, entry.pax_headers)
        assert facts == (0o644, 0, 0, 0, "", "", {})
        assert entry.offset_data == entry.offset + 512
        assert entry.offset_data < start < start + length < entry.offset_data + entry.size
    raw = path.read_bytes()
    assert {raw[entry.offset + 257 : entry.offset + 265] for entry in entries} == {b"ustar\x0000"}
    assert len(raw) % 10240 == 0
    assert not any(raw[entries[-1].offset_data + -(-entries[-1].size // 512) * 512 :])
