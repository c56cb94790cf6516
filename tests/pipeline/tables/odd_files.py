"""Odd files with rows or texts, with the right answers, which were written down before any reader
saw them.

An answer is a text in the form in which training sees it, or `!reason` for a row that is counted
and not read.
"""

import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet

HELLO = "Hello there."
CAFE = "caf\u00e9 noir"
BOTH = [HELLO, CAFE]
NFD = "cafe\u0301 noir"


def fields_of(text):
    """Return the columns that some command reads, all with one text."""
    return {
        "text": text,
        "label": "a",
        "good": text,
        "bad": "a b",
    }


def line_of(text):
    return json.dumps(fields_of(text), ensure_ascii=False)


def lines(*texts, end="\n"):
    return "".join(f"{line_of(text)}{end}" for text in texts)


COLUMNS = [*fields_of("")]


def quoted(cell):
    return '"' + cell.replace('"', '""') + '"'


def csv(*texts, delimiter=",", end="\n", columns=COLUMNS):
    rows = [delimiter.join(quoted(cell) for cell in fields_of(text).values()) for text in texts]
    return end.join([delimiter.join(columns), *rows, ""])


def tsv(*texts, end="\n"):
    return end.join(
        [
            "\t".join(COLUMNS),
            *("\t".join(fields_of(text).values()) for text in texts),
            "",
        ]
    )


def table(*texts, kind=None, others=None):
    columns = {name: [] for name in COLUMNS}
    for text in texts:
        for name, value in fields_of(text).items():
            columns[name].append(None if text is None and name != "label" else value)

    arrays = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    if kind is not None:
        arrays["text"] = arrays["text"].cast(kind) if others is None else others
    return pa.table(arrays)


def parquet(found):
    sink = io.BytesIO()
    pyarrow.parquet.write_table(found, sink)
    return sink.getvalue()


def arrow(found, make=pa.ipc.new_file):
    sink = io.BytesIO()
    with make(sink, found.schema) as writer:
        writer.write_table(found)
    return sink.getvalue()


DEEP = '{"text": ' + "[" * 100_000 + "]" * 100_000 + "}\n"
BOM = "\ufeff"

ROWS = {
    "mark.jsonl": (BOM + lines(*BOTH), BOTH),
    "utf16.jsonl": (lines(*BOTH).encode("utf-16"), BOTH),
    "crlf.jsonl": (lines(*BOTH, end="\r\n"), BOTH),
    "no-last-newline.jsonl": (lines(*BOTH).removesuffix("\n"), BOTH),
    "nfd.jsonl": (lines(HELLO, NFD), BOTH),
    "controls.jsonl": (lines("Hel\x00lo\x07 there.", CAFE), BOTH),
    "form-feed.jsonl": (lines("Hello\x0c there.", CAFE), ["Hello\n there.", CAFE]),
    "line-separator.jsonl": (lines("one\u2028two", "three\x85four"), ["one\ntwo", "three\nfour"]),
    "invisible.jsonl": (lines("Hel\xadlo\ufeff there.", "ca\u2060f\u00e9 no\u200bir"), BOTH),
    "crlf-inside.jsonl": (lines("one\r\ntwo", "three\rfour"), ["one\ntwo", "three\nfour"]),
    "surrogate.jsonl": (
        '{"text": "a \\ud800 b", "label": "a", "good": "a \\ud800 b", "bad": "a"}\n',
        ["a \ufffd b"],
    ),
    "blank-lines.jsonl": (f"{line_of(HELLO)}\n\n  \n{line_of(CAFE)}\n\n", BOTH),
    "bad-line.jsonl": (f"{line_of(HELLO)}\n{{oops\n{line_of(CAFE)}\n", [HELLO, "!bad_json", CAFE]),
    "no-object.jsonl": (f"{line_of(HELLO)}\n[1]\n{line_of(CAFE)}\n", [HELLO, "!bad_json", CAFE]),
    "latin1.jsonl": (
        f"{line_of(HELLO)}\n{line_of(CAFE)}\n".encode("latin-1"),
        BOTH,
    ),
    "nan.jsonl": (f'{line_of(HELLO)[:-1]}, "score": NaN}}\n{line_of(CAFE)}\n', BOTH),
    "double-key.jsonl": (line_of(CAFE).replace('{"text"', '{"text": "no", "text"') + "\n", [CAFE]),
    "deep.jsonl": (f"{line_of(HELLO)}\n{DEEP}{line_of(CAFE)}\n", [HELLO, "!bad_json", CAFE]),
    "array.json": (json.dumps([*map(fields_of, BOTH)]), BOTH),
    "utf16-array.json": (
        json.dumps([*map(fields_of, BOTH)], ensure_ascii=False).encode("utf-16"),
        BOTH,
    ),
    "object.json": (line_of(HELLO), [HELLO]),
    "rows.csv": (csv(*BOTH), BOTH),
    "utf16.csv": (csv(*BOTH).encode("utf-16"), BOTH),
    "semicolon.csv": (csv(*BOTH, delimiter=";"), BOTH),
    "newline.csv": (csv("one\ntwo", 'say "three"'), ["one\ntwo", 'say "three"']),
    "nfd.csv": (csv(HELLO, NFD), BOTH),
    "ragged.csv": (
        csv(HELLO) + "only,two\n" + csv(CAFE).partition("\n")[2],
        [HELLO, "!fields", CAFE],
    ),
    "latin1.csv": (
        csv(HELLO).encode() + csv(CAFE).partition("\n")[2].encode("latin-1"),
        BOTH,
    ),
    "rows.tsv": (tsv(*BOTH), BOTH),
    "quotes.tsv": (tsv('"Hello there.', 'say "three"'), ['"Hello there.', 'say "three"']),
    "mark-crlf.tsv": (BOM + tsv(*BOTH, end="\r\n"), BOTH),
    "utf16.tsv": (tsv(*BOTH).encode("utf-16"), BOTH),
    "ragged.tsv": (
        tsv(HELLO) + "only\ttwo\n" + tsv(CAFE).partition("\n")[2],
        [HELLO, "!fields", CAFE],
    ),
    "rows.parquet": (parquet(table(*BOTH)), BOTH),
    "large.parquet": (parquet(table(*BOTH, kind=pa.large_string())), BOTH),
    "dictionary.parquet": (
        parquet(table(*BOTH, kind=pa.dictionary(pa.int32(), pa.string()))),
        BOTH,
    ),
    "rows.arrow": (arrow(table(*BOTH)), BOTH),
    "packed.jsonl.gz": (gzip.compress((BOM + lines(HELLO, NFD)).encode(), mtime=0), BOTH),
    "packed.tsv.gz": (gzip.compress(tsv(*BOTH).encode("utf-16"), mtime=0), BOTH),
}
"""Files with rows, and the text of each row."""

NO_ROWS = {
    "empty.jsonl": "",
    "mark-only.jsonl": BOM,
    "blank.jsonl": "\n \n\r\n",
    "empty.csv": "",
    "mark-only.csv": BOM,
    "header.csv": csv(),
    "empty.tsv": "",
    "header.tsv": tsv(),
    "empty-array.json": "[]",
    "empty.parquet": parquet(table()),
    "double-column.csv": csv(HELLO, columns=["text", "text", *COLUMNS[2:]]),
    "number.parquet": parquet(table(*BOTH, kind="int", others=pa.array([1, 2]))),
    "null.parquet": parquet(
        table(
            *BOTH,
            kind="null",
            others=pa.array([None, None], pa.string()),
        )
    ),
    "number.jsonl": lines(1, 2.5),
    "control.jsonl": lines("\x00\ufeff\xad", "\u2060"),
    "cut.parquet": parquet(table(*BOTH))[:-9],
}
"""Files in which no row has a text."""

TEXTS = {
    "mark.txt": (f"{BOM}{HELLO}\r\n", HELLO, [HELLO]),
    "utf16.txt": (f"{HELLO}\n{CAFE}\n".encode("utf-16"), f"{HELLO}\n{CAFE}", BOTH),
    "crlf.txt": (f"{HELLO}\r\n{CAFE}\r\n", f"{HELLO}\n{CAFE}", BOTH),
    "no-last-newline.txt": (f"{HELLO}\n{CAFE}", f"{HELLO}\n{CAFE}", BOTH),
    "nfd.txt": (f"{HELLO}\n{NFD}\n", f"{HELLO}\n{CAFE}", BOTH),
    "controls.txt": (f"Hel\x00lo\x07 there.\n{CAFE}\n", f"{HELLO}\n{CAFE}", BOTH),
    "form-feed.txt": (
        f"Hello\x0c there.\n{CAFE}\n",
        f"Hello\n there.\n{CAFE}",
        ["Hello\n there.", CAFE],
    ),
    "line-separator.txt": (
        "one\u2028two\nthree\x85four\n",
        "one\ntwo\nthree\nfour",
        ["one\ntwo", "three\nfour"],
    ),
    "carriage-returns.txt": (
        "one two\rthree four\r",
        "one two\nthree four",
        ["one two\nthree four"],
    ),
    "blank-lines.txt": (f"\n{HELLO}\n \n{CAFE}\n\n", f"{HELLO}\n\n{CAFE}", BOTH),
    "cp1252.txt": (
        f"{HELLO}\nThe caf\u00e9 of the old man has a na\u00efve r\u00e9sum\u00e9.\n".encode(
            "cp1252"
        ),
        f"{HELLO}\nThe caf\u00e9 of the old man has a na\u00efve r\u00e9sum\u00e9.",
        [HELLO, "!bad_utf8"],
    ),
    "packed.txt.gz": (
        gzip.compress(f"{BOM}{HELLO}\r\n{NFD}\r\n".encode(), mtime=0),
        f"{HELLO}\n{CAFE}",
        BOTH,
    ),
    "empty.txt": ("", "", []),
    "mark-only.txt": (BOM, "", []),
}
"""Files of text, the text of the file, and those of its lines."""


def write(folder, name, content):
    path = folder / name
    path.write_bytes(
        content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    )
    return path
