import csv
import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import Counted, RawRecord, detect
from tests.pipeline.captures import counted, read, texts

FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x00"), max_size=8)
FILE = b"text\n" + b"".join(b"Line %d.\n" % number for number in range(9))


def written(tmp_path, data, name="rows.csv"):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def test_quotes_may_hold_delimiters_line_ends_and_quotes(tmp_path):
    data = 'id,text,url\r\n1,"It is ""raining"",\n and cold.",http://a/\r\n2,plain,\r\n\r\n'
    path = written(tmp_path, data)
    assert detect(path) == ("csv", False)
    items = read(path, name="csv")
    assert texts(items) == ['It is "raining",\n and cold.', "plain"]
    assert counted(items) == {"header": 1, "blank_line": 1}
    first, second = (item for item in items if isinstance(item, RawRecord))
    assert (first.kind, first.locator, first.url, first.extra) == ("csv", 13, "http://a/", {"id": "1"})
    assert data.encode()[first.locator :][: first.length].startswith(b'1,"It is')
    assert data.encode()[first.locator :][: first.length].endswith(b"http://a/\r")
    assert data.encode()[second.locator :].startswith(b"2,plain")


@given(
    rows=st.lists(st.tuples(FIELD, FIELD), max_size=9),
    delimiter=st.sampled_from(",;|\t"),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_what_the_standard_library_writes_is_read(tmp_path_factory, rows, delimiter, end):
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL).writerows([("id", "text"), *rows])
    path = written(tmp_path_factory.mktemp("csv"), out.getvalue())
    items = read(path, name="csv", delimiter=delimiter)
    found = [(item.extra["id"], item.text) for item in items if isinstance(item, RawRecord)]
    assert found == [(first, second) for first, second in rows if second.strip()]


def test_a_file_without_a_header(tmp_path):
    path = written(tmp_path, b"a;first\nb;second\n", "rows.data")
    items = read(path, name="csv", delimiter=";", columns=["id", "text"])
    assert texts(items) == ["first", "second"]
    assert counted(items) == {}


def test_broken_rows_are_counted_and_the_next_is_read(tmp_path):
    data = b'text,id\n"a"b,1\none,1,2\n\xff,3\n"",4\n' + b"x" * 60 + b",5\nlast,6\n"
    items = read(written(tmp_path, data), name="csv", limits=Limits(line_bytes=50))
    assert counted(items) == {"header": 1, "bad_csv": 1, "fields": 1, "bad_utf8": 1, "empty": 1, "line_bytes": 1}
    assert texts(items) == ["last"]


@pytest.mark.parametrize("later", ["later", '"later"'])
def test_quotes_that_do_not_end_cost_one_line(tmp_path, later):
    rows = [f"row {number}" for number in range(1001)]
    rows[5] = '"open'
    items = read(written(tmp_path, "\n".join(["text", *rows, later]).encode()), name="csv")
    assert texts(items) == [row for row in rows if row != '"open'] + ["later"]
    assert counted(items) == {"header": 1, "bad_csv": 1}
    assert Counted("malformed", "bad_csv", 5) in items


def test_a_row_of_too_many_lines_is_given_line_by_line(tmp_path, monkeypatch):
    monkeypatch.setattr("clozeline.pipeline.ingest.readers.csv._MOST_LINES", 10)
    rows = [f"row {number}" for number in range(100)]
    path = written(tmp_path, "\n".join(["text", '"' + "\n" * 8 + 'x"', *rows[:50], '"open', *rows[50:]]).encode())
    items = read(path, name="csv")
    assert texts(items) == ["\n" * 8 + "x", *rows]
    assert counted(items) == {"header": 1, "bad_csv": 1}


def test_two_columns_of_one_name_are_refused(tmp_path):
    items = read(written(tmp_path, b"text,id,text,,\na,1,b,,\n"), name="csv")
    assert [item.lacks for item in items[1:]] == ["two columns have the name 'text'; rename one"]
    assert texts(read(written(tmp_path, b"text,id,,\na,1,,\n"), name="csv")) == ["a"]


def test_a_broken_header_names_no_columns(tmp_path):
    items = read(written(tmp_path, b'"id,text\nx,y\n1,2\n'), name="csv")
    assert counted(items) == {"bad_csv": 1, "schema": 2}


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    items = read(written(tmp_path, b"\xef\xbb\xbftext,id\none,1\n\xef\xbb\xbftwo,2\n"), name="csv")
    assert texts(items) == ["one", "\ufefftwo"]


def test_a_missing_column_is_counted(tmp_path):
    items = read(written(tmp_path, b"id;text\n1;one\n"), name="csv")
    assert counted(items) == {"header": 1, "schema": 1}


def test_compressed_and_cut(tmp_path):
    whole = b"text\n" + b"".join(b"row %d\n" % number for number in range(30_000))
    path = written(tmp_path, gzip.compress(whole), "rows.csv.gz")
    assert detect(path) == ("csv", False)
    assert len(texts(read(path, name="csv"))) == 30_000
    path.write_bytes(gzip.compress(whole)[:-2000])
    items = read(path, name="csv")
    assert counted(items) == {"header": 1, "truncated": 1}
    assert texts(items)[:2] == ["row 0", "row 1"]
