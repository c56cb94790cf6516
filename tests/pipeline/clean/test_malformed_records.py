"""Malformed records are listed with file and offset.

The oracle is where a test wrote each of them.
"""

import gzip
import json
import zlib

import pyarrow as pa
import pyarrow.parquet
import pytest

from clozeline.pipeline.execution.plan import load_plan
from clozeline.pipeline.execution.report import write_run_report
from clozeline.pipeline.ingest.documents.files import READ_STAGE, read_rejections
from clozeline.pipeline.recipe import load_recipe
from clozeline.tools.shards.filter_report import main
from tests.pipeline.captures import http, members, page, record, responses
from tests.pipeline.clean.cleaning import run_clean
from tests.pipeline.run_counts import check_run

GOOD = b'{"text": "fine"}\n'
BAD = (b"{broken\n", "üü".encode() + b"\xff\xfe bad bytes\n", b"[1, 2]\n", b'{"body": "x"}\n')
REASONS = ("bad_json", "bad_utf8", "bad_json", "no_text")
LINES = GOOD * 3 + b"".join(line + GOOD for line in BAD)
LINE_PLACES = [(reason, LINES.index(line)) for reason, line in zip(REASONS, BAD, strict=True)]
FIELDS = "id,text\n1,üü\n2\n3,fine\n".encode() + b"4,\xff\xff\n"
ARRAY = b'[{"text": "fine"}, 12, {"text": "fine"}, {"text" 3}, {"text": "fine"}, {"text": 4}]'
WARC = responses(4)
WARC[1] = record(http(page(1)), Content_Length="x")
WARC[2] = record(b"no http at all")
CUT = gzip.compress(b"".join(b'{"text": "row %d"}\n' % number**5 for number in range(40)))[:-60]
DUMP = b"<mediawiki><page><title>A</title><ns>0</ns><text>Words.</text></page>"


def table(texts):
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(pa.table({"text": texts}), sink)
    return sink.getvalue().to_pybytes()


def malformed(done):
    files = sorted(done.folder.glob("rejects/*"))
    return [row for path in files for row in read_rejections(path) if row.stage == READ_STAGE]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", LINES, LINE_PLACES),
        (
            "cut.jsonl.gz",
            CUT,
            [("truncated", zlib.decompressobj(31).decompress(CUT).rindex(b"\n") + 1)],
        ),
        ("a.tsv", b"a\tb\none\nc\td\n", [("fields", 4)]),
        (
            "a.csv",
            FIELDS,
            [("fields", FIELDS.index(b"2\n")), ("bad_utf8", FIELDS.index(b"4,"))],
        ),
        (
            "a.json",
            ARRAY,
            [
                ("bad_json", ARRAY.index(b"12")),
                ("bad_json", ARRAY.index(b' {"text" 3}') + 1),
            ],
        ),
        (
            "a.warc",
            b"".join(WARC),
            [
                ("bad_length", len(WARC[0])),
                ("http", len(WARC[0] + WARC[1])),
            ],
        ),
        (
            "a.warc.gz",
            members(WARC),
            [
                ("bad_length", len(members(WARC[:1]))),
                ("http", len(members(WARC[:2]))),
            ],
        ),
        (
            "cut.warc.gz",
            members(responses(3))[:-30],
            [("truncated", len(members(responses(2))))],
        ),
        ("a.html", b"\0\xff" * 99, [("charset", 0)]),
        # rows of a table have an index, pages of a dump the offset where complete ones end
        (
            "a.parquet",
            table(["fine", "", "fine", None]),
            [("empty", 1), ("empty", 3)],
        ),
        ("a.mediawiki", DUMP + b"<page><title>B</ti", [("truncated", len(DUMP))]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_format(tmp_path, name, content, expected):
    (tmp_path / name).write_bytes(content)
    reader = {"reader": "mediawiki"} if name == "a.mediawiki" else {}
    listed = malformed(run_clean({"path": str(tmp_path / name), **reader}, tmp_path / "out"))
    assert [(row.reason, row.offset) for row in listed] == expected
    assert {row.source for row in listed} == {f"default/{name}"}


@pytest.mark.parametrize(
    "content", [b"{broken\n" * 30_000, (GOOD + b"{broken\n") * 500], ids=["all", "half"]
)
def test_a_flood_lists_the_first_of_each_unit(tmp_path, content):
    (tmp_path / "a.jsonl").write_bytes(content)
    done = run_clean(
        str(tmp_path / "a.jsonl"), tmp_path / "out", plan={"unit_bytes": len(content) // 3}
    )
    listed = malformed(done)

    assert done.counts["malformed"]["bad_json"] == content.count(b"{broken")
    assert len(listed) == 100 * len(done.records)
    assert all(content.startswith(b"{broken", row.offset) for row in listed)
    assert [row.offset for row in listed] == sorted({row.offset for row in listed})
    assert sum(path.stat().st_size for path in done.folder.glob("rejects/*")) < 20_000


def test_shown_and_verified(tmp_path, capsys):
    """By `filter-report`, and counted a second time."""
    texts = "".join(
        json.dumps({"text": f"The people of town {n} walk along the wide river."}) + "\n"
        for n in range(9)
    )
    (tmp_path / "a.jsonl").write_text(texts + "{broken\n" * 30)
    clean = {"language": {"name": "py3langid", "keep": ["en"]}, "filters": []}
    done = run_clean(str(tmp_path / "a.jsonl"), tmp_path / "out", clean)

    assert len(malformed(done)) == 30

    recipe = load_recipe(done.folder / "config.yaml")
    write_run_report(recipe, ["clean"], load_plan(recipe))
    assert main([str(tmp_path / "out")]) == 0

    shown = " ".join(capsys.readouterr().out.split())

    assert "malformed: bad_json 30 input" in shown
    assert f"a.jsonl at {len(texts):,} line 10: it is not valid JSON" in shown
    assert check_run(tmp_path / "out")
