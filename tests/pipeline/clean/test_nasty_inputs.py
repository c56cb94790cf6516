# ruff: noqa: E501 (a table: one case a line)
"""Hostile and broken inputs through the whole stage: each ends in documents, rejections or counts, and they add up."""

import json
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import zstandard

from clozeline.pipeline.ingest.documents.document import FLAG_REPLACEMENTS
from tests.pipeline.captures import http, members, page, record
from tests.pipeline.clean.cleaning import run_clean

ZSTD = zstandard.ZstdCompressor()


@dataclass(frozen=True)
class Case:
    """An input, how many documents it gives, and how often each reason or note is counted."""

    name: str
    make: Callable[[], bytes]
    documents: int
    counts: dict[str, int] = field(default_factory=dict)
    flags: int = 0
    recipe: dict[str, Any] = field(default_factory=dict)


def captured(*payloads: bytes) -> bytes:
    return members([record(payload) for payload in payloads])


def rows(*lines: bytes) -> bytes:
    return b"\n".join([b'{"text": "first"}', *lines, b'{"text": "last"}'])


def many(count: int) -> bytes:
    return b"".join(
        b'{"text": "row %d %s"}\n' % (n, zlib.crc32(b"%d" % n).to_bytes(4, "big").hex().encode()) for n in range(count)
    )


def html(head: str, **kwargs: Any) -> bytes:
    return captured(http(head.encode() + page(1), **kwargs), http(page(2)))


EXTRACTOR = {"language": None, "filters": [], "extractor": {"name": "resiliparse", "timeout_s": 0.3}}
CASES = [
    *(Case(f"empty{suffix}", bytes, 0, {"empty_file": 1}) for suffix in
      (".warc", ".warc.gz", ".html", ".txt", ".jsonl", ".jsonl.zst", ".parquet", ".arrow", ".csv", ".md", ".arc.gz", ".ndjson.lz4")),
    Case("noise.warc.gz", lambda: bytes(range(256)) * 40, 0, {"damaged": 1}),
    Case("controls.warc.gz", lambda: html("a\x00b\x07c\x1b"), 2),
    Case("deep.warc.gz", lambda: html("<div>" * 200_000), 1, {"timeout": 1}, recipe={"clean": EXTRACTOR}),
    Case("memory.warc.gz", lambda: html("<p>x y" * 4_000_000), 1, {"extractor_error": 1},
         recipe={"clean": {**EXTRACTOR, "extractor": {"name": "resiliparse", "memory_bytes": 1 << 28}}}),
    Case("large.warc.gz", lambda: captured(http(page(1, "x" * 300_000)), http(page(2))), 1, {"too_large": 1},
         recipe={"limits": {"record_bytes": 100_000}}),
    Case("frames.jsonl.zst", lambda: ZSTD.compress(many(9)) + bytes.fromhex("502a4d1802000000") + b"xx" + ZSTD.compress(many(9)), 18),
    Case("surrogate.jsonl", lambda: b'{"text": "lone \\ud800 here"}', 1, flags=FLAG_REPLACEMENTS),
    Case("long.jsonl", lambda: rows(json.dumps({"text": "word " * 5000}).encode()), 2, {"too_long": 1},
         recipe={"limits": {"text_chars": 20_000}}),
    Case("no_space.txt", lambda: b"x" * 20_000_000, 0, {"gopher_short_doc": 1}, recipe={"clean": {"language": None}}),
    Case("one_word.txt", lambda: b"spam " * 90_000, 0, {"top_2_gram": 1},
         recipe={"clean": {"language": None, "filters": ["gopher_repetition"]}}),
    Case("extra.jsonl", lambda: rows(json.dumps({"text": "x", "uid": "y", "source": 1, "blob": [["z" * 999]] * 9999}).encode()), 3),
]  # fmt: skip
REJECTED = ("timeout", "extractor_error", "too_long", "gopher_short_doc", "top_2_gram")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nasty_input(case, tmp_path):
    (tmp_path / case.name).write_bytes(case.make())
    done = run_clean(str(tmp_path / case.name), tmp_path / "out", **case.recipe)
    assert len(done.documents) == case.documents
    found = [done.nonzero(group) for group in ("malformed", "ignored", "rejected", "notes")]
    assert {reason: count for group in found for reason, count in group.items()} == case.counts
    assert {document.flags for document in done.documents} <= {case.flags}
    assert {reject.reason for reject in done.rejects} == {*case.counts} & {*REJECTED}


def test_what_was_mended_is_counted(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"text": "a\\u0000b\\u0007"}\n' + json.dumps({"text": "x", "blob": "y" * 99_999})
    )
    done = run_clean(str(tmp_path / "a.jsonl"), tmp_path / "out")
    assert done.counts["repairs"] == {"control_characters": 2, "extra_dropped": 1}
    assert [document.text for document in done.documents] == ["ab", "x"]


def test_links_are_files_of_their_own(tmp_path):
    """Each has its own name, so its own uids; `dedup` drops the copies."""
    (tmp_path / "a.jsonl").write_text('{"text": "a text"}\n')
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "a.jsonl")
    os.link(tmp_path / "a.jsonl", tmp_path / "c.jsonl")
    documents = run_clean(f"{tmp_path}/*.jsonl", tmp_path / "out").documents
    assert [document.source for document in documents] == [f"default/{name}.jsonl" for name in "abc"]
    assert len({document.uid for document in documents}) == 3
    assert len({document.content_hash for document in documents}) == 1
