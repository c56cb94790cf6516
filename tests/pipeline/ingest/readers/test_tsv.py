"""Tab-separated lines: a header makes a table of them, and without one they are pairs."""

import gzip

import pytest

from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers import RawRecord
from clozeline.pipeline.registries import READERS
from tests.pipeline.captures import counted, read_range, texts
from tests.refusals import refused

HEADER = "text\tid\nThe first.\t1\nThe second.\t2\n"


@pytest.mark.parametrize(
    "content",
    [
        HEADER.encode(),
        gzip.compress(HEADER.encode(), mtime=0),
        b"\xef\xbb\xbf" + HEADER.encode(),
        HEADER.encode("utf-16"),
        HEADER.replace("\n", "\r\n").encode(),
    ],
)
def test_a_header_that_names_the_text_makes_a_table(read_as, content):
    items = read_as(content)

    assert [
        (item.text, item.target_text, dict(item.extra))
        for item in items
        if isinstance(item, RawRecord)
    ] == [
        ("The first.", None, {"id": "1"}),
        ("The second.", None, {"id": "2"}),
    ]
    assert counted(items) == {"header": 1}


@pytest.mark.parametrize(
    ("content", "options", "found"),
    [
        ("id\ttext\turl\n1\tOne.\thttps://a.example/\n", {}, [("One.", None)]),
        ("id\tbody\n1\tOne.\n", {"text_key": "body"}, [("One.", None)]),
        ("text\nOne.\nTwo.\n", {}, [("One.", None), ("Two.", None)]),
        ("text\ttarget_text\nOne.\tEins.\n", {}, [("One.", "Eins.")]),
        ("One.\tEins.\nTwo.\tZwei.\n", {}, [("One.", "Eins."), ("Two.", "Zwei.")]),
        ("text\ttext\nOne.\tEins.\n", {}, [("text", "text"), ("One.", "Eins.")]),
        (
            "text\tid\n1\t2\n",
            {"columns": ["text", "target_text"]},
            [("text", "id"), ("1", "2")],
        ),
        ("Text\tId\n1\t2\n", {}, [("Text", "Id"), ("1", "2")]),
    ],
)
def test_what_is_a_header(read_as, content, options, found):
    items = read_as(content, **options)
    assert [(item.text, item.target_text) for item in items if isinstance(item, RawRecord)] == found


def test_a_range_from_the_middle_knows_the_header(write):
    path = write("text\tid\n" + "".join(f"Row {number}.\t{number}\n" for number in range(100)))
    reader = READERS.resolve({"name": "tsv"}).build(InputLimits())
    size = path.stat().st_size
    parts = [
        item
        for at in range(0, size, 97)
        for item in read_range(reader, path, at, min(size, at + 97))
    ]

    assert texts(parts) == [f"Row {number}." for number in range(100)]
    assert counted(parts) == {"header": 1}


COPY = r"""text	id
one\ntwo\t\\three	1
\N	2
four	\N
"""


@pytest.mark.parametrize(
    ("escapes", "found"),
    [
        (True, ["one\ntwo\t\\three", "four"]),
        (False, [r"one\ntwo\t\\three", r"\N", "four"]),
        (None, []),
    ],
)
def test_the_text_format_of_copy_is_read_or_refused(read_as, escapes, found):
    if escapes is None:
        with refused("escapes: true"):
            read_as(COPY)
        assert texts(read_as(COPY + "C:\\data\t4\n"))[-1] == r"C:\data"
    else:
        assert texts(read_as(COPY, escapes=escapes)) == found


def test_a_table_without_the_text_key_says_which_columns_it_has(read_as):
    items = read_as("id\tbody\tlabel\n1\tOne.\tx\n")
    assert counted(items) == {"fields": 2}
    assert items[0].detail == (
        "no 'text' among the keys: body, id, label; without a header, name all 3 columns: "
        "`columns: [text, target_text, score]`"
    )
