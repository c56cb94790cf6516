r"""Files of lines (texts, JSON, tab-separated values), read in any ranges, against
`bytes.split(b"\n")`."""

import gzip
import io
import json
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.ingest.formats import byte_lines
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers import RawRecord, SkippedRecord
from clozeline.pipeline.ingest.readers.lines import LinesReader
from tests.pipeline.captures import counted, read, read_range, texts
from tests.refusals import refused


def expected(content, limit):
    """Offset and text of each line, or why it is none."""
    found = []
    at = 0
    lines = content.split(b"\n")
    for line in lines[:-1] if lines[-1] == b"" else lines:
        raw = line.removeprefix(b"\xef\xbb\xbf") if at == 0 else line

        if len(line) > limit:
            found.append((at, "line_bytes"))
        elif not raw.strip():
            found.append((at, "blank_line"))
        else:
            try:
                found.append((at, raw.decode()))
            except UnicodeDecodeError:
                found.append((at, "bad_utf8"))

        at += len(line) + 1

    return found


CONTENT = st.lists(
    st.sampled_from(
        [b"a", b"bc\r", b"\n", b"\n", b"\xff", b"\xc3\xbc", b" ", b"\xe2\x80\xa8", b"x" * 9]
    ),
    max_size=40,
).map(b"".join)


@settings(max_examples=150)
@given(
    CONTENT,
    st.booleans(),
    st.booleans(),
    st.integers(1, 9),
    st.data(),
)
def test_ranges_hold_every_line_once_in_order(content, marked, packed, piece, data):
    content = (b"\xef\xbb\xbf" if marked else b"") + content

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_lines, "_PIECE_BYTES", piece)
        path = Path(folder) / "file"
        path.write_bytes(gzip.compress(content) if packed else content)
        reader = LinesReader(LinesReader.Options(encoding="utf-8"), InputLimits(line_bytes=10))

        assert reader.is_splittable(path.read_bytes()) != packed

        size = path.stat().st_size
        inside = [] if packed else sorted(data.draw(st.lists(st.integers(0, size), max_size=4)))
        items = [
            item
            for start, end in pairwise([0, *inside, size])
            for item in read_range(reader, path, start, end)
        ]

    wanted = expected(content, 10)

    assert [item.reason if isinstance(item, SkippedRecord) else item.text for item in items] == [
        what for _, what in wanted
    ]
    assert [item.locator for item in items if isinstance(item, RawRecord)] == [
        at for (at, _), item in zip(wanted, items, strict=True) if isinstance(item, RawRecord)
    ]


def test_a_file_of_one_line_is_not_read_to_its_end_by_each_unit(tmp_path, monkeypatch):
    read = []

    class Counting(io.FileIO):
        def read(self, size):
            read.append(super().read(size))
            return read[-1]

        def readline(self, size):
            read.append(super().readline(size))
            return read[-1]

    size = 1 << 20
    units = 64
    limit = 1 << 12
    path = tmp_path / "line"
    path.write_bytes(b"x" * size)
    monkeypatch.setattr(Path, "open", lambda path, mode: Counting(path, mode))
    reader = LinesReader(LinesReader.Options(), InputLimits(line_bytes=limit))
    bounds = [size * unit // units for unit in range(units + 1)]
    found = [list(reader.read(path, start, end)) for start, end in pairwise(bounds)]

    assert [[item.reason for item in items] for items in found] == [
        ["line_bytes"],
        *[[]] * (units - 1),
    ]
    # twice by the unit in which it starts, which measures it
    assert sum(map(len, read)) < 4 * size + 2 * units * 2 * limit, (
        "each to the end would be 32 times the file"
    )


def items_of(folder, content, name, **options):
    (folder / "rows").write_bytes(content)
    return read(folder / "rows", name=name, **options)


# JSON lines
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "cut', "bad_json"),
        (b"[" * 3000 + b"]" * 3000, None),
        (b"[" * 200_000, "bad_json"),
        (b"[1, 2]", "bad_json"),
        (b'"text"', "bad_json"),
        (b'{"title": "x"}', "no_text"),
        (b'{"text": null}', "empty"),
        (b'{"text": " \\n\\t"}', "empty"),
        (b'{"text": ["a"]}', "text_type"),
        ('{"text": "üü'.encode() + b'bad \xff byte"}', "bad_utf8"),
        (b"", "blank_line"),
        (b"  \r", "blank_line"),
    ],
)
def test_a_bad_line_of_json_costs_itself(tmp_path, line, reason):
    rows = [b'{"text": "line %d"}\n' % number for number in range(4)]
    items = items_of(
        tmp_path,
        b"".join([*rows[:2], line, b"\n", *rows[2:]]),
        "jsonl",
    )

    assert texts(items) == ["line 0", "line 1", "line 2", "line 3"]

    found = counted(items)

    assert sum(found.values()) == 1
    assert reason is None or found == {reason: 1}


def test_only_newlines_divide_lines_and_keys_can_be_named(tmp_path):
    content = "\ufeff" + '{"text": "a\u2028b\u0085c"}\r\n{"text": "two"}'
    assert texts(items_of(tmp_path, content.encode(), "jsonl")) == ["a\u2028b\u0085c", "two"]
    row = b'{"body": "hello", "link": "http://a/", "text": 3}'
    (item,) = items_of(tmp_path, row, "jsonl", text_key="body", url_key="link")
    assert (item.text, item.url, item.extra) == ("hello", "http://a/", {"text": 3})


# Tab-separated values
# -----------------------------------------------------------------------------------------------

PAIRS = [
    "It is raining.\tEs regnet.",
    "",
    "no other side",
    "a\tb\tc",
    "\tnur rechts",
    "left only\t",
    "Whales are mammals.\t鲸鱼是哺乳动物。\r",
]


def test_pairs_and_what_is_counted(tmp_path):
    data = "\n".join(["\ufeff" + PAIRS[0], *PAIRS[1:]]).encode()
    items = items_of(tmp_path, data, "tsv")
    found = [item for item in items if isinstance(item, RawRecord)]

    assert [(item.text, item.target_text) for item in found] == [
        ("It is raining.", "Es regnet."),
        ("", "nur rechts"),
        ("left only", ""),
        ("Whales are mammals.", "鲸鱼是哺乳动物。"),
    ]
    assert [item.locator for item in found] == [
        0,
        *(data.index(one) for one in (b"\tnur", b"left only", b"Whales")),
    ]
    assert counted(items) == {"blank_line": 1, "fields": 2}
    assert {item.locator_type for item in found} == {"tsv"}


def test_named_columns(tmp_path):
    row = b"7\tIt is raining.\thttp://x.example"
    (item,) = items_of(tmp_path, row, "tsv", columns=["score", "text", "url"])

    assert (item.text, item.target_text, item.url) == ("It is raining.", None, "http://x.example")
    assert item.extra == {"score": "7"}

    for columns in (["target_text"], ["text", "text"], []):
        with refused("columns"):
            items_of(tmp_path, row, "tsv", columns=columns)


# Encodings
# --------------------------------------------------------------------------------------------------

ROWS = ["Plain words of a row.", "Another row, plain again."]
OPTIONS = {
    "csv": {},
    "jsonl": {},
    "lines": {},
    "tsv": {"columns": ["text"]},
}


def write_rows(reader, rows):
    if reader == "csv":
        return "id,text\n" + "".join(f'{number},"{row}"\n' for number, row in enumerate(rows))
    if reader == "jsonl":
        return "".join(json.dumps({"text": row}, ensure_ascii=False) + "\n" for row in rows)
    return "".join(f"{row}\n" for row in rows)


@pytest.mark.parametrize("reader", OPTIONS)
@pytest.mark.parametrize(
    ("label", "codec", "row"),
    [
        ("utf-8", "utf-8", "Çà et là"),
        ("windows-1252", "cp1252", "“l’été” – 5 €."),
        ("shift_jis", "cp932", "髙橋①㈱"),
        ("ISO-8859-1", "cp1252", "“l’été” – 5 €."),
        ("gbk", "gb18030", "价格是，“五元”"),
        ("euc-kr", "cp949", "펲시"),
    ],
)
def test_rows_of_a_named_encoding(tmp_path, reader, label, codec, row):
    """A row with a byte that none of these encodings has there is counted."""
    data = (
        write_rows(reader, [ROWS[0], "one ? two", row, ROWS[1]])
        .encode(codec)
        .replace(b"?", b"\x81")
    )

    items = items_of(tmp_path, data, reader, encoding=label, **OPTIONS[reader])

    assert texts(items) == [ROWS[0], row, ROWS[1]]
    assert counted(items)["bad_utf8"] == 1
    # a record starts where its bytes do
    for item in (item for item in items if isinstance(item, RawRecord)):
        assert item.text in data[item.locator :][: item.length].decode(codec)


@pytest.mark.parametrize("name", ["utf-16", "unicode_escape", "zlib", "nope", ""])
def test_other_names_of_encodings_are_refused(tmp_path, name):
    with refused("expected a name of the Encoding Standard"):
        items_of(tmp_path, b"one\n", "lines", encoding=name)
