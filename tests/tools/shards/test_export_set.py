"""Exports are read by the libraries that they are for: every column of every row in order, and all files or none."""

import importlib.util
import json
import os
import struct
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from clozeline.pipeline.rows import Ragged
from clozeline.pipeline.shards.quarantine import publish_quarantine
from clozeline.tools.shards import export_set
from clozeline.tools.shards.exporting import mds
from tests.shard_sets import damage, list_column, objective, rows, toy_set, write_set
from tests.tools.shards import read_export

PEERS = Path(os.environ.get("CLOZELINE_READERS", ".venv/readers/bin/python"))
"""Python of an environment with benchmarks/peers/readers.txt."""
LIBRARIES = {"hf": "datasets", "litdata": "litdata", "parquet": "pyarrow", "webdataset": "webdataset"}
TYPES = {"input_ids": "uint16", "words": "uint32", "order": "uint8", "weights": "float32"}
CAUSAL = {**objective("decoder"), "name": "causal_lm", "label": "causal_lm"}


def mixed_set(folder):
    """Rows of every type with lists of no, few and many values, and large uids; the second block is damaged."""
    made = rows([*range(1, 11)], [3, 300, 70_000, 1, 5, 6, 7, 8, 9, 0])
    made.fixed["uid"][:] = np.uint64(2**64 - 1) - made.fixed["uid"]
    for name, dtype in list(TYPES.items())[1:]:
        lists = [np.arange(number % 3) * 0.5 if dtype == "float32" else [number] * (number % 4) for number in range(10)]
        made.columns[name] = Ragged.from_lists(lists, dtype)
    columns = [list_column(name, dtype) for name, dtype in TYPES.items()]
    return hide_block(write_set(folder, [made], columns=columns, languages=["en"]))


def hide_block(shards):
    """Put the second of three blocks in quarantine; it is damaged, and no reader may open it."""
    publish_quarantine(shards.path.parent, [{"shard": shards.manifest.shards[0].path, "block": 1, "reason": "a test"}])
    damage(shards, 1)
    return shards


def causal_set(folder, dtype="uint16"):
    made = rows([*range(1, 11)], [3, 300, 1, 2, 5, 6, 7, 8, 9, 4])
    made.columns["input_ids"] = Ragged(
        made.columns["input_ids"].values.astype(dtype), made.columns["input_ids"].offsets
    )
    return hide_block(write_set(folder, [made], columns=[list_column("input_ids", dtype)], objective=CAUSAL))


def export(shards, output, form, *words):
    return export_set.main([str(shards.path), f"output={output}", f"format={form}", *words])


def stored_rows(shards):
    """The rows outside of the quarantine, as `read_export` gives them."""
    kept = [row for block in (0, 2) for row in shards.read_block(block)]
    return [
        read_export.plain({**row.fixed, "document_uid": row.fixed["document_uid"].tobytes(), **row.columns})
        for row in kept
    ]


def read_back(form, folder):
    """Read an export by its library, here or in the environment of readers."""
    if importlib.util.find_spec(LIBRARIES.get(form, "none of this environment")):
        return read_export.read_rows(form, str(folder))
    if not PEERS.exists():
        pytest.skip(f"{PEERS} has no library that reads {form}")
    done = subprocess.run([PEERS, read_export.__file__, form, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("form", ["hf", "litdata", "mds", "megatron", "parquet", "webdataset"])
def test_its_library_reads_every_row(tmp_path, capsys, form):
    if form == "litdata":
        pytest.importorskip("litdata", reason="litdata writes its own format")
    shards = (causal_set if form == "megatron" else mixed_set)(tmp_path / "set")
    assert export(shards, tmp_path / "out", form, "rows=4") == 0
    said = capsys.readouterr().out
    assert f"{tmp_path / 'out'}: 6 rows in " in said
    assert said.endswith(" bytes; 4 in quarantine dropped\n")
    summary = json.loads((tmp_path / "out" / ".export.json").read_text())
    assert (summary["rows"], summary["rows_in_quarantine"]) == (6, 4)
    assert summary["tokenizer"]["special_ids"]["mask"] == 3
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*summary["files"], ".export.json"}
    expected = stored_rows(shards)
    if form == "megatron":
        expected = [{"input_ids": row["input_ids"]} for row in expected]
    if form == "webdataset":
        expected = [row | {"uid": f"{row['uid']:016x}", "language": "en"} for row in expected]
        assert len(list((tmp_path / "out").glob("*.tar"))) == 2
    assert read_back(form, tmp_path / "out") == expected


@pytest.mark.parametrize(("dtype", "code", "stored"), [("uint16", 8, "<u2"), ("uint32", 4, "<i4")])
def test_files_of_megatron(tmp_path, dtype, code, stored):
    """By their description in `megatron.core.datasets.indexed_dataset`."""
    shards = causal_set(tmp_path / "set", dtype)
    assert export(shards, tmp_path / "out", "megatron", "rows=4") == 0
    index, ids = ((tmp_path / "out" / f"rows.{end}").read_bytes() for end in ("idx", "bin"))
    assert index[:34] == b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, 6, 7)
    sizes, offsets = np.frombuffer(index, "<i4", 6, 34), np.frombuffer(index, "<i8", 6, 34 + 24)
    assert np.frombuffer(index, "<i8", offset=34 + 24 + 48).tolist() == [*range(7)]
    found = [np.frombuffer(ids, stored, *bounds).tolist() for bounds in zip(sizes, offsets, strict=True)]
    assert found == [row["input_ids"] for row in stored_rows(shards)]


def test_files_of_mds(tmp_path):
    """By the description of version 2: fixed sizes are in the index, others at the start of a sample."""
    shards = mixed_set(tmp_path / "set")
    assert export(shards, tmp_path / "out", "mds", "rows=4") == 0
    found = []
    for facts in json.loads((tmp_path / "out" / "index.json").read_text())["shards"]:
        assert (facts["version"], facts["format"], facts["column_names"]) == (2, "mds", sorted(facts["column_names"]))
        raw = (tmp_path / "out" / facts["raw_data"]["basename"]).read_bytes()
        assert len(raw) == facts["raw_data"]["bytes"]
        count, *offsets = np.frombuffer(raw, "<u4", facts["samples"] + 2).tolist()
        assert (count, offsets[-1]) == (facts["samples"], len(raw))
        found += [read_sample(raw[start:end], facts) for start, end in pairwise(offsets)]
    assert found == stored_rows(shards)


def read_sample(sample, facts):
    sizes, row = facts["column_sizes"], {}
    variable = iter(np.frombuffer(sample, "<u4", sizes.count(None)).tolist())
    sample = sample[4 * sizes.count(None) :]
    for name, kind, fixed in zip(facts["column_names"], facts["column_encodings"], sizes, strict=True):
        size = fixed or next(variable)
        value, sample = sample[:size], sample[size:]
        if kind.startswith("ndarray:"):
            width = 1 << (value[0] & 3)
            values = np.frombuffer(value[1 + width :], kind.partition(":")[2])
            assert (value[0] >> 2, int.from_bytes(value[1 : 1 + width], "little")) == (1, len(values))
            row[name] = values
        else:
            row[name] = value if kind == "bytes" else np.frombuffer(value, kind)[0]
    assert not sample
    return read_export.plain(row)


def test_what_a_format_cannot_hold_is_refused(tmp_path, capsys, monkeypatch):
    mixed, out = mixed_set(tmp_path / "set"), tmp_path / "new" / "out"
    assert export(mixed, out, "megatron") == 64
    assert "expected a set of causal_lm for a decoder with the one list column input_ids" in capsys.readouterr().err
    monkeypatch.setattr(mds, "_LARGEST", 1000)
    assert export(mixed, out, "mds", "rows=2") == 64
    assert "rows=2: a file of this many rows has 1," in capsys.readouterr().err
    twice = write_set(tmp_path / "twice", [rows([4, 4])])
    assert export(twice, out, "webdataset") == 65
    assert "two consecutive rows have the key 0000000000000004-0" in capsys.readouterr().err
    assert export(toy_set(tmp_path / "empty", [0]), out, "parquet") == 64
    assert "expected rows, got none" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "litdata", None)
    assert export(mixed, out, "litdata") == 64
    assert "pip install litdata" in capsys.readouterr().err
    assert not out.parent.exists()


@pytest.mark.parametrize(("error", "code"), [(OSError(28, "No space left on device"), 74), (KeyboardInterrupt(), 130)])
def test_all_files_are_written_or_none(tmp_path, capsys, monkeypatch, error, code):
    def write(rows, folder):
        (folder / "rows.bin").touch()
        raise error

    monkeypatch.setitem(export_set._WRITERS, "mds", write)
    mixed, out = mixed_set(tmp_path / "set"), tmp_path / "new" / "out"
    assert export(mixed, out, "mds") == code
    assert not out.parent.exists()
    out.mkdir(parents=True)
    assert export(mixed, out, "parquet") == 0
    (out / "rows-00000-of-00001.parquet").write_text("mine")
    assert export(mixed, out, "parquet") == 64
    assert "holds files already; choose a new folder" in capsys.readouterr().err
    assert (out / "rows-00000-of-00001.parquet").read_text() == "mine"
    assert [path.name for path in out.parent.iterdir()] == ["out"]
