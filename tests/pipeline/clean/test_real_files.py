"""Real crawls, whole and broken: nothing stops the stage, and the counts add up (the stage itself checks that)."""

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest
import zstandard

from clozeline.pipeline.execution.unit_record import add_counts
from tests.pipeline.clean.cleaning import run_clean

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def data():
    folder = os.environ.get("CLOZELINE_DATA")
    if not folder:
        pytest.skip("CLOZELINE_DATA names no folder with real files")
    return Path(folder)


def test_crawls(data, tmp_path):
    done = run_clean(str(data / "warc"), tmp_path)
    assert done.counts["documents_out"] > 250
    assert set(done.nonzero("malformed")) <= {"bad_length", "charset", "truncated"}
    sums = {}
    for record in done.records:
        add_counts(sums, record.counts)
    assert sums == done.counts


UNLIKE_WORDS = ("gopher_below_alpha_threshold",)
"""Rejections of what is mostly numbers or marks; where marks counted as words, 51 article pages of 279 were."""


@pytest.mark.parametrize(
    ("archive", "fewest", "letters"),
    [("article_extraction", 100, 2), ("readability", 80, 3), ("trafilatura_eval", 100, 2)],
)
def test_pages(data, tmp_path, archive, fewest, letters):
    packed = (data / "html" / f"{archive}.tar.zst").read_bytes()
    folder = tmp_path / "pages"
    folder.mkdir()
    with tarfile.open(fileobj=io.BytesIO(zstandard.ZstdDecompressor().stream_reader(packed).read())) as files:
        for number, member in enumerate(files):
            if member.isfile() and ".html" in member.name:
                content = files.extractfile(member).read()
                content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
                (folder / f"{number:04d}.html").write_bytes(content)
    filters = {"language": "py3langid", "filters": ["gopher_quality"]}
    done = run_clean({"path": str(folder), "reader": "html"}, tmp_path / "out", filters)
    assert done.counts["documents_in"] >= fewest
    assert done.counts["documents_out"] >= 0.85 * done.counts["documents_in"]
    assert sum(done.nonzero("rejected").get(reason, 0) for reason in UNLIKE_WORDS) <= letters


def test_texts(data, tmp_path):
    for name in ("en_peps.jsonl.zst", "en_eips.jsonl.zst", "novels_deu.jsonl.zst"):
        done = run_clean(str(data / "text" / name), tmp_path / name)
        assert done.counts["documents_out"] == done.counts["records_in"] >= 10
