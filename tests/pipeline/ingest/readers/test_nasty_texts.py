"""One set of texts in many scripts through every reader; other libraries write the files."""

import csv
import io
import json

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from clozeline.pipeline.ingest.readers import RawRecord
from tests.pipeline.captures import read, record

TEXTS = {
    "combining marks": "e\u0301a\u0308o\u0302\u0323 \u1e69 s\u0323\u0307 \u0958 \u1100\u1161\u11a8",
    "Arabic": "\u0627\u0644\u0633\u0644\u0627\u0645\u064f \u0639\u0644\u064a\u0643\u0645\u060c "
    "\u200fa\u200e 1\u061f",
    "Hebrew": "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u202bab\u202c \u05f4\u05ea\u05f4.",
    "a family": "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f44d\U0001f3fd",
    "flags": "\U0001f3f3\ufe0f\u200d\U0001f308 \U0001f1e9\U0001f1ea",
    "Indic": "\u0928\u092e\u0938\u094d\u0924\u0947 \u0bb5\u0ba3\u0b95\u0bcd\u0b95\u0bae\u0bcd",
    "Thai": "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "Han beyond 16 bits": "\u4e2d\u6587\u3001\U00020000\U0002a6d6\u3002\u65e5\u672c\u8a9e\uff08\u30c6\uff09",
    "marks of formats": 'a "quoted" \'text\', with; <b>tags</b> & \\n {"json": [1]} #.',
    "zero bytes": "be\x00fore \x07 and after",
    "ends of lines": "first\r\nsecond\nthird\rfourth\u2028fifth\u0085sixth\u2029seventh",
    "tabs": "a\tb\t\tc",
    "a byte order mark inside": "be\ufefffore",
    "a byte order mark first": "\ufeffbefore",
    "white space around": "  \u00a0 indented \u3000 ",
    "not characters": "\ufffe\uffff \ufdd0 \U0010ffff \ue000",
    "a long line": "w\u00f6rter " * 12_000 + "end",
}


def rows(texts):
    return [{"id": str(number), "text": text} for number, text in enumerate(texts)]


def as_tsv(texts):
    return "".join(f"{number}\t{text}\n" for number, text in enumerate(texts))


def json_lines(texts, escaped):
    return "".join(json.dumps(row, ensure_ascii=escaped) + "\n" for row in rows(texts))


def as_csv(texts, end="\n"):
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator=end).writerows(
        [("id", "text"), *enumerate(texts)]
    )
    return out.getvalue()


def as_table(texts, write):
    sink = pa.BufferOutputStream()
    write(pa.Table.from_pylist(rows(texts)), sink)
    return sink.getvalue().to_pybytes()


WRITE = {
    "escaped.jsonl": lambda texts: json_lines(texts, True).encode(),
    "raw.jsonl": lambda texts: json_lines(texts, False).encode(),
    "wide.jsonl": lambda texts: json_lines(texts, False).encode("utf-16"),
    "crlf.jsonl": lambda texts: json_lines(texts, True).replace("\n", "\r\n").encode(),
    "raw.json": lambda texts: json.dumps(rows(texts), ensure_ascii=False).encode(),
    "wide.json": lambda texts: json.dumps(rows(texts), indent=1).encode("utf-16"),
    "a.csv": lambda texts: as_csv(texts).encode(),
    "crlf.csv": lambda texts: as_csv(texts, "\r\n").encode("utf-8-sig"),
    "big-endian.csv": lambda texts: b"\xfe\xff" + as_csv(texts).encode("utf-16-be"),
    "a.parquet": lambda texts: as_table(texts, pa.parquet.write_table),
    "a.feather": lambda texts: as_table(texts, pa.feather.write_feather),
    "a.wet": lambda texts: b"".join(record(text.encode(), kind="conversion") for text in texts),
    "a.tsv": lambda texts: as_tsv(texts).encode(),
    "wide.tsv": lambda texts: as_tsv(texts).encode("utf-16"),
}
READERS = {
    "json": {"name": "json_array"},
    "wet": {"name": "warc"},
    "feather": {"name": "arrow"},
    "tsv": {"name": "tsv", "columns": ["id", "text"], "escapes": False},
}


@pytest.mark.parametrize("name", WRITE)
def test_texts_come_out_as_they_went_in(name, tmp_path):
    form = name.partition(".")[2]
    wanted = [text for text in TEXTS.values() if form != "tsv" or not {"\n", "\t"} & {*text}]
    if form == "wet":
        wanted.remove(TEXTS["a byte order mark first"])  # it marks the encoding there
    (tmp_path / name).write_bytes(WRITE[name](wanted))
    items = read(tmp_path / name, **READERS.get(form, {"name": form}))

    assert [item.text for item in items if isinstance(item, RawRecord)] == wanted
    assert len(items) - len(wanted) in (0, 1)  # the header of a CSV file
