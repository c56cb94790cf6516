"""Empty, linked and mended inputs through the stage: each ends in documents or counts."""

import json
import os

from tests.pipeline.captures import http, page, record
from tests.pipeline.clean.cleaning import run_clean


def rows(*texts):
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


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
    assert [document.source for document in done.documents] == [
        f"default/{name}.jsonl" for name in "abc"
    ]
    assert len({document.uid for document in done.documents}) == 3
    assert len({document.content_hash for document in done.documents}) == 1


def test_what_was_mended_is_counted(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(
        rows("a\0b\x07") + json.dumps({"text": "x", "blob": "y" * 99_999}).encode()
    )
    done = run_clean(str(tmp_path / "a.jsonl"), tmp_path / "out")

    assert done.counts["repairs"] == {"extra_dropped": 1}
    assert done.counts["normalized"] == {"control_characters": 2}
    assert [document.text for document in done.documents] == ["ab", "x"]


def test_pages_that_their_source_cut_are_noted(tmp_path):
    records = [
        record(http(page(number)), WARC_Truncated=cut)
        for number, cut in enumerate(["length", None, "time"])
    ]
    (tmp_path / "a.warc").write_bytes(b"".join(records))
    done = run_clean(str(tmp_path / "a.warc"), tmp_path / "out")

    assert done.nonzero("notes") == {"rest_cut_by_source": 2}
