"""Tables with damaged bytes anywhere: no reader crashes, or reads what lies behind a buffer.

All texts consist of one letter, so any other letter that was not written as damage comes from
elsewhere. The process that reads is a child, because a read outside of memory ends it.
"""

import random
import subprocess
import sys

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import pytest

from clozeline.pipeline.ingest.readers import RawRecord
from tests.pipeline.captures import read

_TEXTS = ["x" * (length % 20) for length in range(40)]
_LISTS = [["x" * length] * (length % 4) if length % 7 else None for length in range(40)]
COLUMNS = {
    "large": pa.array(_TEXTS, pa.large_string()),
    "nulls": pa.array([text or None for text in _TEXTS]),
    "view": pa.array(_TEXTS, pa.string_view()),
    "list": pa.array(_LISTS),
    "large list": pa.array(_LISTS, pa.large_list(pa.string())),
    "list view": pa.array(_LISTS, pa.list_view(pa.string())),
    "fixed list": pa.array([["x", "xx"]] * 40, pa.list_(pa.string(), 2)),
    "struct": pa.array([{"a": text, "b": [{"c": text}]} if text else None for text in _TEXTS]),
    "map": pa.array([[("x", text)] for text in _TEXTS], pa.map_(pa.string(), pa.string())),
    "dictionary": pa.array(_TEXTS).dictionary_encode(),
    "in lists": pa.array(_LISTS, pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    "runs": pa.compute.run_end_encode(pa.array(_TEXTS)),
    "decimal": pa.array([1] * 40).cast(pa.decimal128(30, 2)),
}


def write(table, path, kind):
    if kind == "parquet":
        pa.parquet.write_table(table, path, row_group_size=20, compression="none")
        return
    options = pa.ipc.IpcWriteOptions(compression="zstd" if kind == "compressed" else None)
    new = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
    with new(str(path), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=20)


def letters(value):
    if isinstance(value, dict | list | tuple):
        inner = value.values() if isinstance(value, dict) else value
        return set().union(*map(letters, inner))
    return set(value) if isinstance(value, str) else set()


def fuzz(path, kind):
    """Read tables of each column, each time with other damaged bytes."""
    for column, values in COLUMNS.items():
        if kind == "parquet" and column == "runs":
            continue  # Parquet has no such column
        write(pa.table({"text": ["xxx"] * len(values), "other": values}), path, kind)
        content = path.read_bytes()
        draw = random.Random(f"{kind} {column}")
        # damage to the schema moves its letters into names, and decimals have digits
        others = set(f"text other {values.type} +-.0123456789E")

        for number in range(40):
            damaged = bytearray(content)
            for _ in range(draw.choice([1, 1, 2, 4])):
                at = draw.randrange(8, len(damaged))
                damaged[at] = draw.choice([0, 1, 127, 255, draw.randrange(256)])
            path.write_bytes(damaged)
            written = {chr(new) for old, new in zip(content, damaged, strict=True) if old != new}

            for item in read(path, name="parquet" if kind == "parquet" else "arrow"):
                if isinstance(item, RawRecord):
                    behind = (letters(item.text) | letters(item.extra)) - written - others
                    assert behind <= {"x", "\ufffd"}, (column, number)


@pytest.mark.parametrize("kind", ["arrow", "stream", "compressed", "parquet"])
def test_damaged_bytes_end_no_process(tmp_path, kind):
    call = f"fuzz(Path({str(tmp_path / 'table')!r}), {kind!r})"
    code = f"from pathlib import Path; from {__name__} import fuzz; {call}"
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], capture_output=True)

    assert (done.returncode, done.stderr.decode()) == (0, "")
