"""Files that URLs and patterns name, and the errors for those that name none."""

from __future__ import annotations

import fsspec
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.inputs import source_files
from clozeline.pipeline.execution.plan import load_plan
from clozeline.pipeline.recipe import InputEntry
from tests.pipeline.clean.cleaning import recipe_for

NAMES = ("in/a.jsonl", "in/b.txt", "in/deep/er/c.jsonl", "in/.hidden/d.jsonl", "in/deep/.e.jsonl", "in/q?[1].jsonl")


@pytest.fixture
def bucket():
    system = fsspec.filesystem("memory")
    system.pipe({f"/listing/{name}": b"{}\n" for name in NAMES})
    yield "memory://listing"
    system.rm("/listing", recursive=True)


def sources(url, **keys):
    return [file.source for file in source_files([InputEntry(path=url, **keys)])]


@pytest.mark.parametrize("pattern", ["in/*.jsonl", "in/**/*.jsonl", "*/*", "in/*/*/c*", "in/[ab].*", "in/a.jsonl"])
def test_names_are_those_of_the_same_pattern_on_a_disk(bucket, pattern, tmp_path):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"{}\n")
    assert sources(f"{bucket}/{pattern}", source="x") == sources(f"{tmp_path}/{pattern}", source="x") != []


def test_a_name_of_the_web_loses_query_and_escapes():
    from clozeline.pipeline.execution.remote_file import file_name, split_url

    assert split_url("https://h/a/b%20c.txt?x=1/2") == ("https://h/a", "b%20c.txt?x=1/2")
    assert file_name("https://h/a/b%20c.txt?x=1/2") == "b c.txt"
    assert file_name("s3://bucket/b%20c?.txt") == "b%20c?.txt"


@pytest.mark.parametrize(("source", "message"), [
    ("https://site.example/*.jsonl", "a web server cannot list its files, so a pattern has no meaning there"),
    ("memory://listing/in/*.nothing", "no file matches this pattern"),
    ("memory://listing/in/", "expected a file or a pattern, got a folder"),
    ("nosuch://bucket/a.jsonl", "no reader for this kind of store"),
    ("gs://bucket/a.jsonl", "pip install gcsfs"),
    ("simplecache::s3://bucket/a.jsonl", "chains file systems, is not supported"),
    ({"path": "memory://listing/in/a.jsonl", "reader": "moses", "target_path": "s3://b/a.de"}, "s3://b/a.de is a URL"),
    ({"path": "memory://listing/in/a.jsonl", "store": {"retry": 1}}, "did you mean 'input.store.retries'"),
])  # fmt: skip
def test_what_cannot_be_read_is_refused_with_a_way_out(bucket, source, message, tmp_path):
    with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
        load_plan(recipe_for(source, tmp_path / "out"))
