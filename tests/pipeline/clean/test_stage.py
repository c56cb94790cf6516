"""The stage on files: what stays, what is counted, named or refused, and equal bytes for any number
of tasks."""

import gzip
import json
from collections import Counter
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet
import pytest
import xxhash
import zstandard

from clozeline.configuration.config import to_data
from clozeline.errors import IntegrityError, PartialFailureError
from clozeline.pipeline.clean.unit_counts import UnitCounts
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.ingest.documents.document import document_uid
from clozeline.pipeline.text.normal_form import normalize
from tests.pipeline.captures import SENTENCES, http, members, page, record, responses
from tests.pipeline.clean.cleaning import recipe_for, run_clean

GERMAN = (
    "Der Fluss ist im Sommer breit und langsam, und die Leute gehen mit ihren Hunden an ihm "
    "entlang. " * 5
)


@pytest.fixture(scope="module")
def crawl(tmp_path_factory):
    """A crawl with pages to keep and one to reject for each step, between records that are
    ignored."""
    folder = tmp_path_factory.mktemp("crawl")
    bodies = [
        page(0),
        page(1),
        page(2, GERMAN * 4).replace(b"This is the page", b"Seite"),
        page(3, "short"),
    ]

    bodies += [b"<html></html>", page(4) + b"\0", page(5, SENTENCES + "See { code }.")]
    bodies.append(page(6, SENTENCES.replace(". ", ".</p><p>Menu</p><p>")))
    captures = [
        record(http(body), f"http://Host{number}.example:80/") for number, body in enumerate(bodies)
    ]
    others = [record(b"x", kind="warcinfo"), record(b"y", kind="request")]
    (folder / "a.warc.gz").write_bytes(members([others[0], *captures, others[1]]))
    rows = [
        {"text": f"Row {number}. {SENTENCES}", "url": None, "id": number} for number in range(3)
    ]
    (folder / "b.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n{broken\n")
    return folder


def test_documents_rejections_and_counts(crawl, tmp_path):
    done = run_clean(
        str(crawl),
        tmp_path,
        {
            "language": {"name": "py3langid", "keep": ["en"]},
            "keep_text": 1.0,
        },
    )

    assert done.nonzero("rejected") == {
        "language": 1,
        "gopher_short_doc": 1,
        "extract_empty": 1,
        "curly_bracket": 1,
    }
    assert done.nonzero("ignored") == {"type_warcinfo": 1, "type_request": 1}
    assert done.nonzero("malformed") == {"bad_json": 1}
    assert (
        done.counts["records_in"],
        done.counts["documents_in"],
        done.counts["documents_out"],
    ) == (14, 11, 7)
    assert Counter(reject.reason for reject in done.rejects) == done.nonzero("rejected")
    assert {reject.reason: reject.detail for reject in done.rejects}["language"] == "de"
    assert sum(len(document.text) for document in done.documents) == done.counts["characters_out"]
    assert done.counts["edits"]["c4_quality.terminal_punctuation"] > 0
    assert "Menu" not in done.documents[-4].text
    assert [document.source for document in done.documents] == ["default/a.warc.gz"] * 4 + [
        "default/b.jsonl"
    ] * 3


def test_a_document_says_where_it_is_from(crawl, tmp_path):
    done = run_clean(str(crawl / "a.warc.gz"), tmp_path)
    first = done.documents[0]

    assert first.uid == document_uid("test", "default/a.warc.gz", "warc-gz", first.offset)
    assert (first.url, first.host, first.date) == (
        "http://Host0.example:80/",
        "host0.example",
        1714979289,
    )
    assert first.content_hash == xxhash.xxh3_128_digest(first.text.encode())
    assert (
        first.n_chars,
        first.language,
        first.language_score,
    ) == (len(first.text), "und", 0.0)
    assert first.n_words == len(first.text.replace(",", " ").replace(".", " ").split())
    assert all(normalize(document.text) == document.text for document in done.documents)


def test_a_source_can_have_its_own_steps(crawl, tmp_path):
    entries = [
        {"path": str(crawl / "a.warc.gz"), "source": "web"},
        {"path": str(crawl / "b.jsonl"), "source": "rows"},
    ]
    clean = {
        "language": {"name": "py3langid", "keep": ["de"]},
        "filters": [{"name": "gopher_quality", "words": [1000, 2000]}],
        "sources": {"rows": {"language": None, "filters": []}},
    }

    done = run_clean(entries, tmp_path, clean)

    assert {document.source_group for document in done.documents} == {"rows"}
    assert done.nonzero("rejected") == {"language": 6, "gopher_short_doc": 1, "extract_empty": 1}

    again = to_data(recipe_for(entries, tmp_path, clean))["clean"]

    assert again["sources"]["rows"] == {
        **dict.fromkeys(("extractor", "language", "normalize", "unwrap", "line_rules")),
        "filters": [],
    }


def test_two_documents_with_one_uid_are_an_error():
    tally = UnitCounts(0, 0.0)
    tally.start_file("a", [], [])
    document = SimpleNamespace(uid=b"u" * 16, source_group="default")
    tally.add_document(document, "default/a", 0)
    with pytest.raises(IntegrityError, match="default/a"):
        tally.add_document(document, "default/a", 7)


@pytest.mark.parametrize("limit", [1, 10, 1000])
def test_a_preview_decides_as_the_complete_run(limit, crawl, tmp_path):
    plan = {"unit_bytes": 4096}
    full = run_clean(str(crawl), tmp_path / "full", plan=plan)
    part = run_clean(str(crawl), tmp_path / "part", plan=plan, limit=limit)
    for read in ("documents", "rejects"):
        every = {row.uid: row for row in getattr(full, read)}
        assert all(row == every[row.uid] for row in getattr(part, read))

    if limit == 1000:
        assert (part.documents, part.rejects) == (full.documents, full.rejects)
    # the first documents of each unit
    for unit, (cut, whole) in enumerate(zip(part.records, full.records, strict=True)):
        share = limit // len(part.records) + (unit < limit % len(part.records))
        assert cut.counts["documents_in"] == min(share, whole.counts["documents_in"])


# Inputs that change, are cut, or hold nothing
# ------------------------------------------------------------------------


def test_a_truncated_input_is_accepted_or_refused(tmp_path):
    path = tmp_path / "crawl.warc.gz"
    path.write_bytes(members(responses(3))[:-20])
    done = run_clean(str(path), tmp_path / "accept")

    assert (len(done.documents), done.nonzero("malformed")) == (2, {"truncated": 1})

    with pytest.raises(PartialFailureError, match="truncated"):
        run_clean(str(path), tmp_path / "fail", on_error={"truncated": "fail"})


def test_an_input_that_grows_while_it_is_read_fails_its_unit(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "one"}\n')
    keep = UnitCounts.count_kept

    def grow(self, document):
        path.write_text(path.read_text() * 2)
        keep(self, document)

    monkeypatch.setattr(UnitCounts, "count_kept", grow)
    with pytest.raises(PartialFailureError, match="changed while it was read"):
        run_clean(str(path), tmp_path / "out")

    assert not list((tmp_path / "out").glob("clean/records/*ok*"))


def test_a_file_with_bytes_and_no_record_is_named(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    broken = b"".join(responses(3)).replace(b"WARC/1.0", b"WRAC/1.0")
    (files / "broken.warc").write_bytes(broken)
    (files / "whole.warc").write_bytes(b"".join(responses(3)))
    pa.parquet.write_table(
        pa.Table.from_pylist([], pa.schema([("text", pa.utf8())])), files / "empty.parquet"
    )
    done = run_clean(str(files), tmp_path / "out")

    assert done.counts["without_records"] == {"default/broken.warc": len(broken)}

    shown = str(list(done.summary.row.remarks()))

    assert f"dropped (bytes): {len(broken):,} without a record in default/broken.warc" in shown


EMPTY = {
    "a.jsonl.gz": gzip.compress(b""),
    "a.csv.zst": zstandard.ZstdCompressor().compress(b""),
    "a.json": b" [ ]\n",
    "Posts.xml": b'<?xml version="1.0"?>\n<posts>\n</posts>\n',
}


@pytest.mark.parametrize("name", [*EMPTY, "a.parquet", "a.arrow"])
def test_a_complete_file_without_records_loses_no_bytes(tmp_path, name):
    schema = pa.schema(
        [
            ("text", pa.utf8()),
            ("id", pa.int64()),
        ]
    )
    path = tmp_path / name

    if name == "a.parquet":
        pa.parquet.write_table(schema.empty_table(), path)
    elif name == "a.arrow":
        pa.ipc.new_file(path, schema).close()
    else:
        path.write_bytes(EMPTY[name])

    (tmp_path / "b.jsonl").write_text('{"text": "words"}\n')
    done = run_clean([str(path), str(tmp_path / "b.jsonl")], tmp_path / "out")

    assert done.counts["without_records"] == {}
    assert "dropped (bytes)" not in str(list(done.summary.row.remarks()))


def test_units_of_any_size_give_the_same_and_problems_are_named_by_file(tmp_path):
    """One file is empty, one broken, one no gzip file."""
    folder = tmp_path / "in"
    folder.mkdir()

    for number in range(6):
        lines = [json.dumps({"text": f"Text {number} {row}."}) for row in range(200 * (number % 4))]
        (folder / f"{number}.jsonl").write_text(
            "".join(f"{line}\n" for line in [*lines, "{broken"][number % 2 :])
        )

    (folder / "empty.jsonl").write_text("")
    (folder / "crawl.warc.gz").write_bytes(b"not a gzip file at all")
    shared = run_clean(str(folder), tmp_path / "shared")
    single = run_clean(str(folder), tmp_path / "single", plan={"unit_bytes": 4096})

    assert len(shared.records) == 8 < len(single.records)
    assert (shared.documents, shared.rejects, shared.counts) == (
        single.documents,
        single.rejects,
        single.counts,
    )

    named = shared.counts["by_source"]

    assert named["default/empty.jsonl"] == {"empty_file": 1}
    assert named["default/3.jsonl"] == {"bad_json": 1}
    assert "default/crawl.warc.gz" in named


# Keys of the text
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "code", "said"),
    [
        (
            '{"body": "A text.", "id": 1}\n{"body": "Another."}\n',
            64,
            "no 'text' among the keys: body, id",
        ),
        (
            '{"text": "x" "y"}\n',
            64,
            "1 of 1 row cannot be read; first bad_json: line 1: it is not valid JSON: Expecting ',' delimiter at "
            "character 14",
        ),
        (
            '{\n "tags": 1,\n "messages": [\n  {"id": 1}\n ]\n}\n',
            64,
            "one JSON object over several lines: write each entry of its list `messages` as a line, "
            "such as by `jq -c '.messages[]' a.jsonl > rows.jsonl`",
        ),
        ('{"text": ["a", "list"]}\n', 64, "'text' is a list"),
        (pa.table({"body": ["A text.", "Another."]}), 64, "no 'text' among the keys: body"),
        (
            pa.table({"text": [["a", "list"]]}),
            64,
            "'text' is a list",
        ),
    ],
)
def test_an_input_without_a_text_is_told_with_the_key_to_give(rows, code, said, tmp_path, capsys):
    path = tmp_path / ("a.jsonl" if isinstance(rows, str) else "a.parquet")
    path.write_text(rows) if isinstance(rows, str) else pa.parquet.write_table(rows, path)
    (tmp_path / "recipe.yaml").write_text("corpus: test\nclean: {language: null, filters: []}\n")
    command = [
        "--config",
        str(tmp_path / "recipe.yaml"),
        f"output={tmp_path / 'out'}",
        f"input={path}",
    ]

    assert main(command) == code

    shown = " ".join(capsys.readouterr().err.split())

    assert said in shown
    assert "Traceback" not in shown

    if "among the keys" in said:
        assert "input.text_key=KEY" in shown
        assert main([*command, "input.text_key=body"]) == 0
        assert "2 documents" in capsys.readouterr().out
