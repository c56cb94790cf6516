from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers import Rejected
from clozeline.pipeline.tasks.readers._tables import TableLayout, detect_layout, table_rows

HEADED = TableLayout(name="headed", texts=("a", "b"), label="y", cells=(("0", 0), ("1", 1)))
BARE = TableLayout(name="bare", texts=("a",), label="y", cells=(("0", 0), ("1", 1)), columns=("a", "y"))


def rows_of(path: Path) -> list[list[str] | str]:
    return [row.reason if isinstance(row, Rejected) else row for _, row in table_rows(path, Limits())]


@given(st.lists(st.lists(st.text("ab\"' é", min_size=1), min_size=2, max_size=4), min_size=1, max_size=6))
def test_rows_are_those_of_the_csv_module_without_quoting(tmp_path_factory: pytest.TempPathFactory, rows) -> None:
    rows = [[f"x{field}" for field in row] for row in rows]
    path = tmp_path_factory.mktemp("tables") / "t.tsv"
    text = "".join("\t".join(row) + "\r\n" for row in rows)
    path.write_bytes(text.encode())
    expected = list(csv.reader(io.StringIO(text, newline=""), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert rows_of(path) == expected == rows


def test_a_stray_quote_joins_no_lines(tmp_path: Path) -> None:
    """The default of `csv` makes one row of these two."""
    path, text = tmp_path / "t.tsv", '1\t"a\n0\t"b\n'
    path.write_text(text, encoding="utf-8")
    assert len(list(csv.reader(io.StringIO(text, newline=""), delimiter="\t"))) == 1
    assert rows_of(path) == [["1", '"a'], ["0", '"b']]


def test_byte_order_mark_bad_bytes_blank_lines_and_damage(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_bytes(b"\xef\xbb\xbfa\tb\n\xff\tb\n\n \t\nlast\tone")
    assert rows_of(path) == [["a", "b"], "bad_utf8", "blank_line", "blank_line", ["last", "one"]]
    packed = zstandard.ZstdCompressor().compress(b"".join(b"%d\tx\n" % number for number in range(9000)))
    path.write_bytes(packed[: len(packed) // 2])
    *_, last = rows_of(path)
    assert last == "truncated"


def test_layouts_are_found_by_what_the_first_line_shows(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    for text, name in (("y\tother\tb\ta\n", "headed"), ("some text\t1\n", "bare")):
        path.write_text(text, encoding="utf-8")
        assert detect_layout(path, [HEADED, BARE], Limits()).name == name


@pytest.mark.parametrize("text", ["a\ty\n", "text\t2\n", "a\tb\ty\ty\n", "text\n", "", "\n"])
def test_other_first_lines_are_refused_with_all_layouts(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"t\.tsv"):
        detect_layout(path, [HEADED, BARE], Limits())
    if text.strip():
        with pytest.raises(ConfigurationError, match="headed: a header with a, b, y; bare: no header"):
            detect_layout(path, [HEADED, BARE], Limits())
