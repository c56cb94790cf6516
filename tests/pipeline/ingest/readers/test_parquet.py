"""Parquet files as other programs write them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet
import pytest

from clozeline.pipeline.ingest.readers import RawRecord
from tests.pipeline.captures import counted, read, texts
from tests.pipeline.ingest.readers.test_arrow import ROWS


def file_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table, sink)
    return bytes(sink.getvalue().to_pybytes())


FILE = file_of(ROWS)


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_row_groups_and_codecs_do_not_matter(tmp_path, codec, dictionary):
    rows = [f"row {number % 97} of {number}" for number in range(1000)]
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(
        pa.table({"text": rows, "n": range(1000)}), path, row_group_size=300, compression=codec,
        use_dictionary=dictionary, data_page_version="2.0",
    )  # fmt: skip
    items = read(path, name="parquet")
    assert texts(items) == rows
    assert [(item.locator, item.extra) for item in items] == [(number, {"n": number}) for number in range(1000)]


def test_a_damaged_group_costs_its_rows_alone(tmp_path):
    path = tmp_path / "a.parquet"
    rows = [f"row {number} " + "x" * 200 for number in range(1000)]
    pa.parquet.write_table(pa.table({"text": rows}), path, row_group_size=256, compression="zstd", use_dictionary=False)
    start = pa.parquet.ParquetFile(path).metadata.row_group(2).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 400] = b"\xff" * 400
    path.write_bytes(content)
    items = read(path, name="parquet")
    assert texts(items) == rows[:512] + rows[768:]
    assert counted(items) == {"damaged": 256}
    assert [item.locator for item in items if isinstance(item, RawRecord)] == [*range(512), *range(768, 1000)]


def test_a_value_that_is_not_utf8_costs_one_row(tmp_path):
    path = tmp_path / "a.parquet"
    offsets = pa.array([0, 1, 2, 3], pa.int32()).buffers()[1]
    broken = pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b"a\xffb"))
    pa.parquet.write_table(pa.table({"text": broken}), path)
    items = read(path, name="parquet")
    assert texts(items) == ["a", "b"]
    assert counted(items) == {"bad_utf8": 1}
