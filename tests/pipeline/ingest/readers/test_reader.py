"""Options of readers beside the keys of an input: each belongs to a reader, and a misspelled one is
told."""

import gzip
import re
import zipfile
from dataclasses import fields
from pathlib import Path

import pytest
import zstandard

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.file_types import suffix_of
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.reader_options import check_options, select_options
from clozeline.pipeline.ingest.readers import SkippedRecord, detect_members, detect_reader
from clozeline.pipeline.registries import READERS
from tests.contracts import contract
from tests.pipeline.captures import read_range
from tests.refusals import refused
from tests.temporary_module import temporary_module

PAGE = (Path(__file__).parents[4] / "docs/inputs.md").read_text().partition("## Damaged input")[2]


@contract(READERS)
def test_a_reader_keeps_the_contract(name):
    kind = READERS.load_class(name)

    assert isinstance(kind.VERSION, int)
    assert kind.reasons
    assert len(set(kind.reasons)) == len(kind.reasons) <= 11
    assert not [reason for reason in kind.reasons if f"`{reason}`" not in PAGE]
    assert kind.is_splittable(b"") in (True, False)
    assert [each for each in kind.suffixes if suffix_of(f"a{each}") != each] == []
    assert not (kind.start and re.match(kind.start, b""))


@contract(READERS)
def test_random_bytes_are_counted_not_raised(name, tmp_path):
    kind = READERS.load_class(name)
    packed = map(bytes.fromhex, ("", "1f8b08", "28b52ffd", "04224d18", "fd377a585a00"))
    for head in (*packed, b"BZh9", b"PAR1", b"WARC/1.0\r\n"):
        path = tmp_path / "file"
        path.write_bytes(head + bytes(range(256)) * 20)
        files = {
            option.name: str(path) for option in fields(kind.Options) if option.metadata.get("file")
        }
        items = read_range(
            kind(kind.Options(**files), InputLimits()),
            path,
            0,
            path.stat().st_size,
        )

        assert items

        reasons = {
            item.reason
            for item in items
            if isinstance(item, SkippedRecord) and item.group == "malformed"
        }

        assert reasons <= set(kind.reasons)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.warc.gz", b"not gzip at all", ("warc", True)),
        ("a.txt", b"WARC/1.0\r\n", ("warc", True)),
        ("a.txt", gzip.compress(b"WARC/1.0\r\n", mtime=0), ("warc", True)),
        ("a.txt", zstandard.ZstdCompressor().compress(b"WARC/1.0\r\n"), ("warc", False)),
        ("a", b"\xef\xbb\xbf\n <!DOCTYPE HTML>", ("html", False)),
        ("a.warc", gzip.compress(b"WARC/1.0\r\n", mtime=0), ("warc", True)),
        ("a.json", b'{"text": "a"}\n', ("jsonl", True)),
        ("a.json.gz", gzip.compress(b'[{"text": "a"}]', mtime=0), ("json_array", False)),
        ("a.jsonl", b"[1]\n[2]\n", ("jsonl", True)),
        ("a.csv.gz", gzip.compress(b"id,text", mtime=0), ("csv", False)),
        ("a.tsv", b"a\tb", ("tsv", True)),
        ("a.jsonl.gz", gzip.compress(b"{}", mtime=0), ("jsonl", None)),
        ("a.NDJSON", b"", ("jsonl", True)),
        ("a.htm.xz", b"", ("html", False)),
        ("a.md", b"# words", ("text", False)),
        ("Inbox", b"From - Thu Jan  2 00:00:01 2020\r\nSubject: words\r\n", ("mbox", False)),
        (
            "2020-January.txt",
            b"From a at b.org  Thu Jan  2 00:00:01 2020\nFrom: a at b.org (A)\n",
            ("mbox", False),
        ),
        ("a.txt", b"From the author\nNote: words of 2020\n", ("text", False)),
        ("a.eml", b"Subject: words\n\n", ("mbox", False)),
        ("a.xml", b'<?xml version="1.0"?>\n<posts>\n', ("stackexchange", False)),
        ("a.ipynb", b"{}", ("ipynb", False)),
        ("a", b"", ("text", False)),
        ("a.parquet", b"", ("parquet", False)),
    ],
)
def test_magic_bytes_then_extension(tmp_path, name, content, expected):
    path = tmp_path / name
    path.write_bytes(content)
    assert detect_reader(path) == expected
    assert detect_reader(path, "text") == ("text", False)


@pytest.mark.parametrize(
    ("own", "declared", "name", "content", "other"),
    [
        ("own_text", 'suffixes = (".txt",)', "a.txt", b"words", "text"),
        ("own_jsonl", 'suffixes = (".jsonl",)', "a.jsonl.gz", b"{}", "jsonl"),
        ("own_capture", 'start = b"[A-Z]{4}/1"', "a", b"WARC/1.0\r\n", "warc"),
        ("own_log", 'start, start_suffix = b"W", ".txt"', "a.txt", b"WARC/1.0\r\n", "warc"),
    ],
)
def test_two_readers_of_one_file_are_refused_with_both_places(
    tmp_path, own, declared, name, content, other
):
    """By their suffix also in an archive; a reader that is named, and other files, are read."""
    path, archive, table = (tmp_path / each for each in (name, "a.zip", "table.csv"))
    path.write_bytes(content)
    table.touch()
    with zipfile.ZipFile(archive, "w") as file:
        file.write(path, name)
    source = f"""
        from clozeline.pipeline.ingest.readers.text import WholeFileReader

        class {own.title().replace("_", "")}Reader(WholeFileReader):
            {declared}
    """

    with temporary_module(READERS.package, own, source, tmp_path):
        for detect in (
            lambda: detect_reader(path),
            lambda: list(detect_members(archive, "zip", InputLimits(), tmp_path, None)),
        )[: 1 + ("suffixes" in declared)]:
            with refused(rf"(?s)(?=.*readers\.{own}\b).*readers\.{other}\b"):
                detect()
        assert detect_reader(path, own)[0] == own
        assert detect_reader(table)[0] == "csv"


def test_a_reader_gets_those_of_the_options_that_it_has():
    given = {"text_key": "body", "url_key": None, "columns": ["text"]}
    assert select_options("jsonl", given) == {"text_key": "body"}
    assert select_options("tsv", given) == {"text_key": "body", "columns": ["text"]}
    assert select_options("html", given) == {}


def test_options_that_some_reader_has_or_that_ask_for_nothing_are_right():
    for given, readers in (
        ({}, ["html"]),
        ({"text_key": "body"}, ["html", "jsonl"]),
        ({"text_key": "body"}, None),
        ({"text_key": "text", "columns": None}, ["html"]),
    ):
        check_options(given, readers)


@pytest.mark.parametrize(
    ("given", "readers", "message"),
    [
        (
            {"text_key": "body"},
            ["html"],
            "unknown key 'text_key' (not an option of the reader html)",
        ),
        (
            {"text_kye": "body"},
            ["jsonl"],
            "(not an option of the reader jsonl); did you mean 'text_key'?",
        ),
        ({"text_kye": "body"}, None, "(no reader has it); did you mean 'text_key'?"),
        ({"paht": "a"}, None, "did you mean 'path'?"),
        ({"text_key": 3}, ["jsonl"], "reader jsonl: text_key: expected a valid string, got 3"),
    ],
)
def test_others_are_told(given, readers, message):
    with pytest.raises(ConfigurationError) as caught:
        check_options(given, readers, keys=("path", "source"))
    assert message in str(caught.value)
