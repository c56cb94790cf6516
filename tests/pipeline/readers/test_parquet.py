"""Parquet files as other programs write them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.pipeline.captures import read, texts


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


def test_rows_before_a_damaged_group_are_given(tmp_path):
    path = tmp_path / "a.parquet"
    rows = [f"row {number} " + "x" * 200 for number in range(1000)]
    pa.parquet.write_table(pa.table({"text": rows}), path, row_group_size=256, compression="zstd", use_dictionary=False)
    start = pa.parquet.ParquetFile(path).metadata.row_group(2).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 400] = b"\xff" * 400
    path.write_bytes(content)
    items = read(path, name="parquet")
    assert texts(items) == rows[:512]
    assert items[-1].reason == "parquet_error"
