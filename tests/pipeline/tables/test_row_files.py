"""Files with rows: tables, lines, sentences and JSON values, plain, compressed and damaged."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard

from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.tables import (
    Rejected,
    SentenceLines,
    open_table,
    read_json_value,
    read_sentences,
    read_text_lines,
)
from tests.extensions.tasks.readers.reading import written
from tests.refusals import refused


def rows_of(path, **options):
    """Fields of each row, or the reason why it has none."""
    rows = open_table(path, InputLimits(), **options).rows()
    return [row.reason if isinstance(row, Rejected) else dict(row) for _, row in rows]


def test_parts_are_one_file(tmp_path):
    """Indices run on; a text that is not UTF-8 costs its row."""
    for part, count in enumerate((3, 0, 2)):
        texts = pa.array(
            [f"{part}-{row}".encode() for row in range(count - (part == 2))]
            + [b"\xff"] * (part == 2)
        )
        table = pa.table({"text": texts.cast(pa.binary()).view(pa.string())})
        pyarrow.parquet.write_table(table, tmp_path / f"train-0000{part}-of-00003.parquet")

    rows = open_table(tmp_path / "train-00000-of-00003.parquet", InputLimits()).rows()

    assert [(index, getattr(row, "reason", None) or row["text"]) for index, row in rows] == [
        (0, "0-0"),
        (1, "0-1"),
        (2, "0-2"),
        (3, "2-0"),
        (4, "bad_utf8"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.xml", "<a>", "got text: rename it to end in"),
        ("a.csv", "", "it is empty"),
        ("a.jsonl", "{oops\n", r"row 1: it is not valid JSON"),
        ("a.json", "[1]", r"row 1: it is valid JSON, but not an object"),
        ("a.parquet", "PAR1 and then nothing", "is damaged"),
        ("a.tsv", "text\tb\ttext\n", "two columns have the name 'text'"),
    ],
)
def test_files_that_are_no_table(tmp_path, name, text, message):
    with refused(message):
        open_table(written(tmp_path, text, name), InputLimits())


def test_another_delimiter(tmp_path):
    assert rows_of(written(tmp_path, 'a;b\n"x;y";z\n', "rows.txt"), delimiter=";") == [
        {"a": "x;y", "b": "z"}
    ]


def test_objects_of_lines_and_of_an_array(tmp_path):
    text = b'\xef\xbb\xbf{"a": 1}\r\n\n[1]\n{"a": 1,\n\xff\n7\n{"a": {"b": [2]}}'

    assert rows_of(written(tmp_path, text, "a.jsonl")) == [
        {"a": 1},
        "blank_line",
        "bad_json",
        "bad_json",
        "bad_utf8",
        "bad_json",
        {"a": {"b": [2]}},
    ]
    assert rows_of(written(tmp_path, b'[{"a": 1}, 2,\n{"a": 3}]', "a.json")) == [
        {"a": 1},
        "bad_json",
        {"a": 3},
    ]


def test_tables_have_their_quotes_and_lose_single_lines(tmp_path):
    """A stray quote joins no lines of TSV, which are counted with their header if asked for."""
    path = written(
        tmp_path, b'\xef\xbb\xbfa\tb\n1\t"a\n\xff\tb\n\n \t\n0\t"b\n1\nlast\tone', "t.tsv"
    )

    assert rows_of(path) == [
        {"a": "1", "b": '"a'},
        "bad_utf8",
        "blank_line",
        "blank_line",
        {"a": "0", "b": '"b'},
        "fields",
        {"a": "last", "b": "one"},
    ]
    assert [index for index, _ in open_table(path, InputLimits(), by_line=True).rows()] == [
        1,
        2,
        3,
        4,
        5,
        6,
        7,
    ]

    packed = zstandard.ZstdCompressor().compress(
        b"".join(b"%d\tx\n" % number for number in range(9000))
    )
    *_, last = rows_of(written(tmp_path, packed[: len(packed) // 2], "t.tsv"), columns=["a", "b"])

    assert last == "truncated"


def test_one_bad_byte_costs_one_line(tmp_path):
    r"""A mark at the beginning and `\r` are no text.

    `\x85` and other ends of lines that Python knows are.
    """
    raw = "\ufeffa\r\n".encode() + b"\xff\n" + "b\u2028c\x85d\n\n".encode() + b"x" * 40
    found = list(read_text_lines(written(tmp_path, raw), InputLimits(line_bytes=20)))

    assert found == [
        (0, "a"),
        (1, Rejected("bad_utf8", 1)),
        (2, "b\u2028c\x85d"),
        (3, ""),
        (4, Rejected("line_bytes", 4)),
    ]


@pytest.mark.parametrize(
    ("name", "line"),
    [("a.jsonl.zst", b'{"a": "%d"}\n'), ("a.csv.zst", b"%d,x\n"), ("a.tsv.zst", b"%d\tx\n")],
)
def test_files_of_a_large_window_are_read_and_lost_bytes_are_said(tmp_path, name, line):
    """Behind damage no row has a number, so what follows it is lost, too."""
    chosen = zstandard.ZstdCompressionParameters(window_log=31, enable_ldm=True)
    frames = []

    for first in (0, 1000):
        stream = zstandard.ZstdCompressor(compression_params=chosen).compressobj()
        frames.append(
            stream.compress(b"".join(line % number for number in range(first, first + 1000)))
            + stream.flush()
        )

    path = tmp_path / name
    columns = {} if "json" in name else {"columns": ["a", "b"]}
    path.write_bytes(b"".join(frames))

    assert [row["a"] for _, row in open_table(path, InputLimits(), **columns).rows()] == [
        str(n) for n in range(2000)
    ]

    path.write_bytes(
        frames[0]
        + bytes(
            [
                *frames[1][:30],
                *bytes(len(frames[1]) - 30),
            ]
        )
    )
    *rows, (_, last) = open_table(path, InputLimits(), **columns).rows()

    assert [row["a"] for _, row in rows] == [str(n) for n in range(1000)]
    assert (last.reason, last.detail) == (
        "damaged",
        f"{len(frames[1]):,} bytes of the file do not decode",
    )

    with refused(r"limits\.window_bytes"):
        list(open_table(path, InputLimits(window_bytes=1 << 20), **columns).rows())


def test_blank_lines_end_sentences(tmp_path):
    """Any number of them, with spaces or none; the last sentence needs none."""
    path = written(tmp_path, b"\n\na\nb\n  \n\nc\n\xff\nd")
    assert list(read_sentences(path, InputLimits())) == [
        SentenceLines(2, ["a", "b"]),
        SentenceLines(6, ["c", "d"], "bad_utf8"),
    ]


@pytest.mark.parametrize(
    ("raw", "limit", "message"),
    [
        (b"{", 99, "not one valid JSON value"),
        (b"\xff", 99, "not one valid JSON value"),
        (b'{"a": 1}\n{"a": 2}\n', 99, "it holds JSON lines"),
        (gzip.compress(b"[1, 2]", mtime=0)[:-4], 99, "truncated.*copy the file again"),
        (b"[1, 2, 3]", 4, "too large"),
    ],
    ids=["cut", "bytes", "lines", "gzip", "large"],
)
def test_files_of_one_json_value(tmp_path, raw, limit, message):
    assert read_json_value(written(tmp_path, '\ufeff{"a": 1}'), InputLimits()) == {"a": 1}
    assert read_json_value(written(tmp_path, gzip.compress(b"[2]")), InputLimits()) == [2]
    with refused(message):
        read_json_value(written(tmp_path, raw), InputLimits(decompressed_bytes=limit))


def test_a_column_of_classes_has_its_name_in_nfc(tmp_path):
    """As `datasets` stores it; -1 is no label, and a column that the file lacks has none."""
    names = {
        "features": {
            name: {"_type": "ClassLabel", "names": ["a", "b"]}
            for name in ("re\u0301sume\u0301", "gone")
        }
    }

    table = pa.table({"re\u0301sume\u0301": [1, -1]})
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": names})})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    file = open_table(tmp_path / "a.parquet", InputLimits())

    assert [row["r\u00e9sum\u00e9"] for _, row in file.rows()] == [1, None]
    assert file.class_names["r\u00e9sum\u00e9"] == ("a", "b")
