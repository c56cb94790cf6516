import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers import RawRecord, SkippedRecord, detect_reader
from tests.pipeline.captures import counted, read, texts

FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x00"), max_size=8)


def test_quotes_may_hold_delimiters_line_ends_and_quotes(write):
    data = 'id,text,url\r\n1,"It is ""raining"",\n and cold.",http://a/\r\n2,plain,\r\n\r\n'
    path = write(data, "rows.csv")

    assert detect_reader(path) == ("csv", False)

    items = read(path, name="csv")

    assert texts(items) == ['It is "raining",\n and cold.', "plain"]
    assert counted(items) == {"header": 1, "blank_line": 1}

    first, second = (item for item in items if isinstance(item, RawRecord))

    assert (first.locator_type, first.locator, first.url, first.extra) == (
        "csv",
        13,
        "http://a/",
        {"id": "1"},
    )
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
    csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(
        [("id", "text"), *rows]
    )
    path = tmp_path_factory.mktemp("csv") / "rows"
    path.write_bytes(out.getvalue().encode())
    items = read(path, name="csv", delimiter=delimiter)
    found = [(item.extra["id"], item.text) for item in items if isinstance(item, RawRecord)]

    assert found == [(first, second) for first, second in rows if second.strip()]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ("id;text\n1;It rains, and is cold.\n", "delimiter ';'"),
        ("id\ttext\n1\tIt rains, and is cold.\n", "delimiter '\\t'"),
        ('id,text\n1,"It rains, and is cold."\n', None),
        ('id,"a;b;c",text\n1,2,"It rains, and is cold."\n', None),
        ('text\n"It rains, and is cold."\n', None),
    ],
)
def test_a_first_line_without_a_comma_tells_the_delimiter(read_as, data, found):
    items = read_as(data)

    assert texts(items) == ["It rains, and is cold."]

    notes = [
        item.reason for item in items if isinstance(item, SkippedRecord) and item.group == "note"
    ]

    assert notes == ([found] if found else [])


@pytest.mark.parametrize("delimiter", ";,|\t")
def test_the_line_of_excel_that_names_the_delimiter_is_no_row(read_as, delimiter):
    found = read_as(f"sep={delimiter}\r\ntext{delimiter}b\r\nx{delimiter}y\r\n")
    assert texts(found) == ["x"]


@pytest.mark.parametrize("later", ["later", '"later"'])
def test_quotes_that_do_not_end_cost_one_line(read_as, later):
    rows = [f"row {number}" for number in range(1001)]
    rows[5] = '"open'
    items = read_as("\n".join(["text", *rows, later]))

    assert texts(items) == [row for row in rows if row != '"open'] + ["later"]
    assert counted(items) == {"header": 1, "bad_csv": 1}
    assert SkippedRecord("malformed", "bad_csv", 5) in items


def test_a_row_of_too_many_lines_is_given_line_by_line(read_as, monkeypatch):
    monkeypatch.setattr("clozeline.pipeline.ingest.readers.csv._MOST_LINES", 10)
    rows = [f"row {number}" for number in range(100)]
    items = read_as(
        "\n".join(
            [
                "text",
                '"' + "\n" * 8 + 'x"',
                *rows[:50],
                '"open',
                *rows[50:],
            ]
        ).encode()
    )

    assert texts(items) == ["\n" * 8 + "x", *rows]
    assert counted(items) == {"header": 1, "bad_csv": 1}


@pytest.mark.parametrize(
    ("data", "found", "reasons"),
    [
        (
            b'text,id\n"a"b,\xc3\xbc\xc3\xbc\none,1,2\n\xff,3\n"",4\n'
            + b"x" * 60
            + b",5\nlast,6\n",
            ["last"],
            {
                "header": 1,
                "bad_csv": 1,
                "fields": 1,
                "bad_utf8": 1,
                "empty": 1,
                "line_bytes": 1,
            },
        ),
        (b'"id,text\nx,y\n1,2\n', [], {"bad_csv": 1, "schema": 2}),
        (b"\xef\xbb\xbftext,id\none,1\n\xef\xbb\xbftwo,2\n", ["one", "\ufefftwo"], {"header": 1}),
        (b"text,id,,\na,1,,\n", ["a"], {"header": 1}),
    ],
)
def test_broken_rows_and_headers_are_counted(read_as, data, found, reasons):
    items = read_as(data, limits=InputLimits(line_bytes=50))
    assert texts(items) == found
    assert counted(items) == reasons


def test_two_columns_of_one_name_are_refused(read_as):
    _, refused = read_as("text,id,text,,\na,1,b,,\n")
    assert (refused.reason, refused.detail) == (
        "schema",
        "two columns have the name 'text'; rename one",
    )
