"""Sets of very many shards keep their list in a file; everything else is as for few."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.scale import write_synthetic
from clozeline.pipeline.shards import Manifest, ManifestError, ShardSet, open_shards, write_manifest
from clozeline.pipeline.shards.shard_table import SHARDS_FILE, ShardTable, relative_path
from tests.shard_sets import change_manifest, toy_set


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ShardSet, ShardSet]:
    """The same set with its list inside the manifest, and beside it."""
    inside = toy_set(tmp_path / "inside", [9, 4, 7])
    monkeypatch.setattr("clozeline.pipeline.shards.manifest_writer._INLINE_LIMIT", 3)
    return inside, toy_set(tmp_path / "beside", [9, 4, 7])


def test_a_list_beside_the_manifest_says_the_same(listed: tuple[ShardSet, ShardSet]) -> None:
    inside, beside = listed
    assert isinstance(beside.manifest.shards, ShardTable)
    assert list(beside.manifest.shards) == list(inside.manifest.shards)
    assert beside.manifest.shards[-1] == inside.manifest.shards[2]
    assert beside.manifest.shards[1:] == list(inside.manifest.shards[1:])
    assert [beside.read_block(b).fixed["uid"].tolist() for b in range(len(beside.index))] == [
        inside.read_block(b).fixed["uid"].tolist() for b in range(len(inside.index))
    ]
    assert beside.digest == open_shards(beside.path, verify="shard").digest
    assert beside.digest != inside.digest


def test_opening_reads_each_file_once_and_no_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One listing, and three files for a thousand shards."""
    monkeypatch.setattr("clozeline.pipeline.shards.manifest_writer._INLINE_LIMIT", 1000)
    write_synthetic(tmp_path, 1000)
    for facts in Manifest.load(tmp_path).shards:
        with (tmp_path / facts.path).open("wb") as file:
            file.truncate(facts.bytes)
    events: list[str] = []
    watching = True

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if watching and event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(str(tmp_path)):
            events.append(f"{event} {Path(str(arguments[0])).name}")

    sys.addaudithook(watch)  # stays for good, so it is told to be quiet
    shards = open_shards(tmp_path)
    watching = False
    assert len(shards.manifest.shards) == 1000
    files = [f"open {name}" for name in ("index.arrow", "manifest.json", "shards.parquet")]
    assert sorted(events) == [*files, f"os.scandir {tmp_path.name}"]


def test_what_was_written_knows_all_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clozeline.pipeline.shards.manifest_writer._INLINE_LIMIT", 2)
    written: list[Manifest] = []

    def kept(*arguments: Any, **options: Any) -> None:
        written.append(write_manifest(*arguments, **options))

    monkeypatch.setattr("tests.shard_sets.write_manifest", kept)
    found = toy_set(tmp_path, [9, 4, 7]).manifest
    assert written[0].digest == found.digest
    assert list(written[0].shards) == list(found.shards)


def test_paths_do_not_move_the_digest_and_hashes_do(listed: tuple[ShardSet, ShardSet]) -> None:
    beside = listed[1]
    folder = beside.path.parent
    table = pq.read_table(folder / SHARDS_FILE)
    columns = {name: table[name] for name in table.column_names}
    moved = [f"moved/{path}" for path in columns["path"].to_pylist()]
    (folder / "moved").mkdir()
    for path in folder.glob("shard-*"):
        path.rename(folder / "moved" / path.name)
    put_list(folder, {**columns, "path": pa.array(moved)}, 3)
    assert open_shards(folder, verify="shard").digest == beside.digest
    put_list(folder, {**columns, "path": pa.array(moved), "sha256": columns["sha256"].take(pa.array([0, 2, 1]))}, 3)
    assert open_shards(folder).digest != beside.digest


def test_every_flipped_bit_of_the_list_is_found(listed: tuple[ShardSet, ShardSet]) -> None:
    path = listed[1].path.parent / SHARDS_FILE
    raw = path.read_bytes()
    for place in range(0, len(raw), 37):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 8]) + raw[place + 1 :])
        with pytest.raises(ManifestError, match="expected SHA-256"):
            open_shards(path.parent)
    path.unlink()
    with pytest.raises(ManifestError, match="names this list"):
        open_shards(path.parent)


@pytest.mark.parametrize("path", ["", ".", "..", "/a", "a/../b", "a//b", "a/", "./a", "s3:x", "a\\b", "a\n"])
def test_paths_stay_inside(path: str) -> None:
    with pytest.raises(ValueError, match="must be relative"):
        relative_path(path)


@pytest.mark.parametrize("path", ["a", "a/b.c", "..a", "a..", ".a", "a/.b"])
def test_ordinary_paths(path: str) -> None:
    assert relative_path(path) == path


def put_list(folder: Path, columns: dict[str, Any], count: int, **options: Any) -> int:
    """Replace the list, and say so in the manifest; bytes written."""
    path = folder / SHARDS_FILE
    pq.write_table(pa.table(columns), path, **{"compression": "zstd", "use_dictionary": False, **options})
    place = {"path": SHARDS_FILE, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "count": count}
    change_manifest(folder, lambda plain: (plain.update(shards=place), plain["totals"].update(shards=count)))
    return path.stat().st_size


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("path", ["a", None, "c"], "an entry is missing"),
        ("sha256", [bytes(32), bytes(32), None], "an entry is missing"),
        ("rows", [None, 4, 7], "an entry is missing"),
        ("rows", [9, -1, 12], "below zero"),
        ("bytes", [-(2**63), 1, 1], "below zero"),
        ("blocks", [9, 1, 1], "blocks, totals say 6"),
        ("blocks", [2**63 - 1, 2**63 - 1, 2**62], "totals say 6"),
        ("path", ["a", "../b", "c"], "leaves the folder"),
        ("path", ["a", "a", "c"], "one twice"),
        ("path", ["a", "x" * 5000, "c"], "at most 1024 a shard"),
        ("path", ["a", "\udcff", "c"], "UTF8"),
    ],
)
def test_a_list_made_to_mislead(listed: tuple[ShardSet, ShardSet], name: str, values: list[Any], message: str) -> None:
    beside = listed[1]
    folder = beside.path.parent
    table = pq.read_table(folder / SHARDS_FILE)
    columns = {each: table[each] for each in table.column_names}
    put_list(folder, columns, 3)
    assert len(open_shards(folder)) == 20
    if name == "path":  # not text, in the last case
        values = [value and value.encode(errors="surrogateescape") for value in values]
        changed = pa.array(values, pa.binary()).view(pa.string())
    else:
        changed = pa.array(values, table[name].type)
    put_list(folder, {**columns, name: changed}, 3)
    with pytest.raises(ManifestError, match=message):
        open_shards(folder)


def test_another_table_is_no_list(listed: tuple[ShardSet, ShardSet]) -> None:
    folder = listed[1].path.parent
    table = pq.read_table(folder / SHARDS_FILE)
    columns = {name: table[name] for name in table.column_names}
    for wrong, count in [
        ({**columns, "more": columns["rows"]}, 3),
        ({**columns, "rows": columns["rows"].cast(pa.int32())}, 3),
        (columns, 2),
    ]:
        put_list(folder, wrong, count)
        with pytest.raises(ManifestError, match=f"not a list of {count} shards"):
            open_shards(folder)


PATHS = {"one path": ["a", "b", "c" * 30_000_000], "many times": ["c" * 3000] * 10_000, "one start": [
    "c" * 3000 + str(number) for number in range(10_000)], "nothing": [""] * 120_000}  # fmt: skip


@pytest.mark.parametrize(
    ("bomb", "options", "message"),
    [
        ("one path", {}, "at most 1024 a shard"),
        ("many times", {"use_dictionary": True}, "RLE_DICTIONARY.*, expected values one by one"),
        ("one start", {"column_encoding": {"path": "DELTA_BYTE_ARRAY"}}, "DELTA_BYTE_ARRAY.*, expected values one"),
        ("nothing", {}, "expected values one by one"),
    ],
)
def test_a_bomb_is_refused_before_memory_is_taken(
    listed: tuple[ShardSet, ShardSet], bomb: str, options: dict[str, Any], message: str
) -> None:
    """Some kilobytes that would become 30 MB of paths, or 120,000 rows."""
    folder = listed[1].path.parent
    table = pq.read_table(folder / SHARDS_FILE)
    columns = {name: table[name] for name in table.column_names}
    paths = pa.array(PATHS[bomb])
    columns = {name: column.take(pa.array([0] * len(paths))) for name, column in columns.items()}
    assert put_list(folder, {**columns, "path": paths}, len(paths), **options) < 100_000
    del paths
    whole = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(whole)
    pa.set_memory_pool(counted)
    try:
        with pytest.raises(ManifestError, match=message):
            open_shards(folder)
    finally:
        pa.set_memory_pool(whole)
    assert counted.max_memory() < 1 << 20
