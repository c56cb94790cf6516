"""Files with named columns: parts, class names, and what is no table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers._column_files import column_rows, open_columns
from tests.pipeline.tasks.readers.reading import written


def test_parts_are_one_file(tmp_path: Path) -> None:
    """Indices run on."""
    for part, count in enumerate((3, 0, 2)):
        table = pa.table({"text": [f"{part}-{row}" for row in range(count)]})
        pyarrow.parquet.write_table(table, tmp_path / f"train-0000{part}-of-00003.parquet")
    file = open_columns(tmp_path / "train-00000-of-00003.parquet", Limits())
    rows = list(column_rows(file, Limits()))
    assert [(index, row["text"]) for index, row in rows if isinstance(row, dict)] == [
        (0, "0-0"), (1, "0-1"), (2, "0-2"), (3, "2-0"), (4, "2-1"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.xml", "<a>", "got text: rename it to end in"),
        ("a.csv", "", "it is empty"),
        ("a.jsonl", "{oops\n", r"row 1: it is no JSON"),
        ("a.parquet", "PAR1 and then nothing", "is damaged"),
    ],
)
def test_files_that_are_no_table(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        open_columns(written(tmp_path, text, name), Limits())


def test_another_delimiter(tmp_path: Path) -> None:
    file = open_columns(written(tmp_path, 'a;b\n"x;y";z\n', "rows.txt"), Limits(), delimiter=";")
    assert [row for _, row in column_rows(file, Limits())] == [{"a": "x;y", "b": "z"}]
