"""Exports are read by the libraries that they are for: every column of every row in order."""

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from clozeline.extensions.exports.commands import export_set
from clozeline.pipeline.rows import Ragged
from clozeline.pipeline.shards import open_shards
from tests.shard_sets import list_column, rows, toy_set, write_set

ROOT = Path(__file__).parents[3]
LIBRARIES = {
    "hf": "datasets",
    "litdata": "litdata",
    "parquet": "pyarrow",
    "webdataset": "webdataset",
}
TYPES = {"input_ids": "uint16", "words": "uint32", "order": "uint8", "weights": "float32"}
PRINTER = """
import json
print(json.dumps(
    [rows[index] for index in range(len(rows))],
    default=lambda value: value.hex() if isinstance(value, bytes) else value.tolist(),
))
"""
"""Prints the `rows` of a block of the page: bytes in hexadecimal, arrays as lists."""


def make_set(folder):
    """Rows with lists of no, few and many values, and large uids."""
    made = rows([*range(1, 11)], [3, 256, 65_536, 1, 5, 6, 7, 8, 9, 2])
    made.fixed["uid"][:] = np.uint64(2**64 - 1) - made.fixed["uid"]

    for name, dtype in TYPES.items():
        lists = [
            np.arange(number % 3) * 0.5 if dtype == "float32" else [number] * (number % 4)
            for number in range(10)
        ]
        made.columns[name] = Ragged.from_lists(made.columns.get(name, lists), dtype)

    columns = [list_column(name, dtype) for name, dtype in TYPES.items()]
    return write_set(folder, [made], columns=columns, languages=["en"])


def export(shards, output, form, *words):
    return export_set.main([str(shards.path), f"output={output}", f"format={form}", *words])


def stored_rows(shards):
    """The rows, as `PRINTER` prints them."""
    return [
        {name: value.tolist() for name, value in (*row.fixed.items(), *row.columns.items())}
        | {"document_uid": row.fixed["document_uid"].tobytes().hex()}
        for row in shards
    ]


def run_page(form, folder):
    """Run the page's block of a format in a folder; return the rows that it reads."""
    blocks = re.findall(
        r"^```python\n(.*?)^```$",
        (ROOT / "extensions/exports/README.md").read_text(),
        re.M | re.S,
    )
    (block,) = (block for block in blocks if f'"export/{form}' in block)
    done = subprocess.run(
        [sys.executable, "-c", block + PRINTER],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr

    return json.loads(done.stdout.splitlines()[-1])


def as_read(row, form):
    fixed = [name for name, value in row.items() if not isinstance(value, list)]
    if form == "litdata":
        return (
            row
            | {name: [row[name]] for name in fixed}
            | {"document_uid": [*bytes.fromhex(row["document_uid"])]}
        )

    if form == "webdataset":
        uid = f"{row['uid']:016x}"
        source = {name: row[name] for name in fixed} | {"uid": uid, "language": "en"}
        return {"__key__": f"{uid}-0", "json": source} | {
            f"{name}.npy": row[name] for name in TYPES
        }

    return row


@pytest.mark.parametrize("form", sorted(LIBRARIES))
def test_its_library_reads_every_row(tmp_path, form):
    pytest.importorskip(LIBRARIES[form])
    shards = make_set(tmp_path / "set")
    output = tmp_path / "export" / form

    assert export(shards, output, form, "rows=5") == 0

    summary = json.loads((output / ".export.json").read_text())

    assert (summary["rows"], summary["tokenizer"]["special_ids"]["mask"]) == (10, 3)
    assert {
        path.name: path.stat().st_size for path in output.iterdir() if path.name != ".export.json"
    } == {name: facts["bytes"] for name, facts in summary["files"].items()}

    found = run_page(form, tmp_path)

    if form == "webdataset":
        found = [
            {name: row[name] for name in row if name not in ("__url__", "__local_path__")}
            for row in found
        ]

    assert found == [as_read(row, form) for row in stored_rows(shards)]


def test_token_sets_are_keyed_by_document(shard_sets, tmp_path):
    shards = open_shards(shard_sets / "encode")

    assert export(shards, tmp_path / "out", "webdataset") == 0

    with tarfile.open(*(tmp_path / "out").glob("*.tar")) as archive:
        keys = {member.name.split(".")[0] for member in archive}
        assert all(member.mtime == 0 for member in archive)

    assert keys == {row.fixed["document_uid"].tobytes().hex() for row in shards}


def test_what_a_format_cannot_hold_is_refused(tmp_path, capsys, monkeypatch):
    mixed = make_set(tmp_path / "set")
    out = tmp_path / "new/out"

    assert export(write_set(tmp_path / "twice", [rows([4, 4])]), out, "webdataset") == 65
    assert "two consecutive rows have the key 0000000000000004-0" in capsys.readouterr().err
    assert export(toy_set(tmp_path / "empty", [0]), out, "parquet") == 64
    assert "expected rows, got none" in capsys.readouterr().err

    monkeypatch.setitem(sys.modules, "litdata.streaming.writer", None)

    assert export(mixed, out, "litdata") == 64
    assert "pip install litdata" in capsys.readouterr().err
    assert not out.parent.exists()
