"""Hostile and broken inputs through the stage: each ends in documents, rejections or counts, and they add up."""

import json
import os

import pytest
import zstandard

from clozeline.pipeline.ingest.documents.document import FLAG_REPLACEMENTS
from tests.pipeline.captures import http, members, page, record
from tests.pipeline.clean.cleaning import LENIENT, run_clean


def captured(*pages):
    return members([record(http(one)) for one in pages])


def rows(*texts):
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


SLOW = {"clean": {**LENIENT, "extractor": {"name": "resiliparse", "timeout_s": 0.3}}}
SMALL = {"clean": {**LENIENT, "extractor": {"name": "resiliparse", "memory_bytes": 1 << 28}}}
SKIPPABLE = bytes.fromhex("502a4d1802000000") + b"xx"
CASES = {
    "noise.warc.gz": (lambda: bytes(range(256)) * 40, 0, {"damaged": 1}, {}),
    "controls.warc.gz": (lambda: captured(b"a\0b\x07c\x1b" + page(1), page(2)), 2, {}, {}),
    "deep.warc.gz": (lambda: captured(b"<div>" * 200_000, page(2)), 1, {"timeout": 1}, SLOW),
    "memory.warc.gz": (lambda: captured(b"<p>x y" * 4_000_000, page(2)), 1, {"extractor_error": 1}, SMALL),
    "large.warc.gz": (lambda: captured(page(1, "x" * 300_000), page(2)), 1, {"too_large": 1},
                      {"limits": {"record_bytes": 100_000}}),
    "frames.jsonl.zst": (lambda: SKIPPABLE.join(map(zstandard.compress, (rows("a", "b"), rows("c")))), 3, {}, {}),
    "surrogate.jsonl": (lambda: rows("lone \ud800 here"), 1, {}, {}),
    "long.jsonl": (lambda: rows("a", "word " * 5000), 1, {"too_long": 1}, {"limits": {"text_chars": 20_000}}),
    "no_space.txt": (lambda: b"x" * 20_000_000, 0, {"gopher_short_doc": 1}, {"clean": {"language": None}}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_nasty_input(name, tmp_path):
    make, documents, counts, recipe = CASES[name]
    (tmp_path / name).write_bytes(make())
    done = run_clean(str(tmp_path / name), tmp_path / "out", **recipe)
    assert len(done.documents) == documents
    found = [done.nonzero(group) for group in ("malformed", "ignored", "rejected", "notes")]
    assert {reason: count for group in found for reason, count in group.items()} == counts
    assert {document.flags for document in done.documents} <= {FLAG_REPLACEMENTS if "surrogate" in name else 0}
    assert {reject.reason for reject in done.rejects} == done.nonzero("rejected").keys()


def test_empty_files_are_noted_and_links_are_files_of_their_own(tmp_path):
    """Each link has its own name, so its own uids; `dedup` drops the copies."""
    folder = tmp_path / "in"
    folder.mkdir()
    for suffix in ("warc.gz", "txt", "jsonl.zst", "parquet", "csv"):
        (folder / f"empty.{suffix}").touch()
    (folder / "a.jsonl").write_bytes(rows("a text"))
    (folder / "b.jsonl").symlink_to(folder / "a.jsonl")
    os.link(folder / "a.jsonl", folder / "c.jsonl")
    done = run_clean(str(folder), tmp_path / "out")
    assert done.nonzero("notes") == {"empty_file": 5}
    assert [document.source for document in done.documents] == [f"default/{name}.jsonl" for name in "abc"]
    assert len({document.uid for document in done.documents}) == 3
    assert len({document.content_hash for document in done.documents}) == 1


def test_what_was_mended_is_counted(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(rows("a\0b\x07") + json.dumps({"text": "x", "blob": "y" * 99_999}).encode())
    done = run_clean(str(tmp_path / "a.jsonl"), tmp_path / "out")
    assert done.counts["repairs"] == {"control_characters": 2, "extra_dropped": 1}
    assert [document.text for document in done.documents] == ["ab", "x"]
