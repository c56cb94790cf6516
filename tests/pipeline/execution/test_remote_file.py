"""Inputs by URL: the same documents as from a disk, by ranges, with retries, and never silently
from changed files."""

import gzip
import io
import json
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.execution import remote_file
from clozeline.pipeline.execution.inputs import source_files
from clozeline.pipeline.execution.plan import load_plan, store_plan
from clozeline.pipeline.recipe import InputEntry
from tests.pipeline.captures import responses
from tests.pipeline.clean.cleaning import recipe_for, run_clean
from tests.range_site import RangeSite

SENTENCE = "The ferry left the harbor before the fog came in, and nobody on the pier waved. "
PLAN = {"unit_bytes": 1 << 16, "shard_bytes": 1 << 20}
LARGE = {"unit_bytes": 1 << 20, "shard_bytes": 1 << 20}


def lines(count):
    rows = ({"text": f"Document {number}. {SENTENCE * 12}"} for number in range(count))
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def table(count):
    sink = io.BytesIO()
    rows = {"text": [f"Document {number}. {SENTENCE}" for number in range(count)]}
    parquet.write_table(pa.table(rows), sink, row_group_size=50)
    return sink.getvalue()


FILES = {
    "a.jsonl": lines(300),
    "b.jsonl.gz": gzip.compress(lines(100)),
    "c.jsonl.zst": zstandard.compress(lines(60)),
    "d.parquet": table(100),
    "f.txt": SENTENCE.encode(),
    # members that are not compressed, so that the file has several units
    "g.warc.gz": b"".join(gzip.compress(response, 0) for response in responses(100)),
    "j.jsonl": b"",
    "i 100%.jsonl": lines(5),
}


@pytest.fixture(autouse=True)
def fresh_store(monkeypatch):
    """Each test begins like a new process, and retries do not wait."""
    remote_file._stores.clear()
    monkeypatch.setattr("clozeline.pipeline.shards.store._LONGEST_PAUSE_S", 0.0)


@pytest.fixture
def bucket():
    """FILES in fsspec's store in memory, in a folder."""
    system = fsspec.filesystem("memory")
    system.pipe({f"/bucket/in/{name}": content for name, content in FILES.items()})
    system.pipe_file("/bucket/in/.hidden.jsonl", lines(1))
    yield "memory://bucket/in"
    system.rm("/bucket", recursive=True)


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "in"
    root.mkdir()
    for name, content in FILES.items():
        (root / name).write_bytes(content)
    return root


def read(source, output, **keys):
    return run_clean(source, output, plan=PLAN, **keys)


def test_a_pattern_in_a_store_gives_the_documents_of_a_local_folder(bucket, folder, tmp_path):
    local = read(f"{folder}/*", tmp_path / "local")
    remote = read(f"{bucket}/*", tmp_path / "remote")

    assert len(local.documents) == 666
    assert remote.documents == local.documents

    plans = [
        load_plan(recipe_for(source, tmp_path / name, plan=PLAN))
        for source, name in ((f"{folder}/*", "local"), (f"{bucket}/*", "remote"))
    ]

    stored = [plan.as_json()["units"] for plan in plans]

    assert stored[0] == stored[1]

    fsspec.filesystem("memory").pipe_file(
        "/bucket/in/a.jsonl", FILES["a.jsonl"].replace(b"Document 7.", b"Document 8.")
    )
    changed = load_plan(recipe_for(f"{bucket}/*", tmp_path / "remote", plan=PLAN))

    assert changed.changes == {"new": 0, "changed": 1, "removed": 0}

    again = read(f"{bucket}/*", tmp_path / "remote")
    (folder / "a.jsonl").write_bytes(fsspec.filesystem("memory").cat("/bucket/in/a.jsonl"))

    assert again.documents != remote.documents
    assert again.documents == read(f"{folder}/*", tmp_path / "local").documents


def test_units_are_asked_for_once(tmp_path):
    site = RangeSite({"a.jsonl": lines(3000)})
    with site.site.running():
        recipe = recipe_for(f"{site.site.url}a.jsonl", tmp_path / "out", plan=LARGE)
        size = len(site.files["a.jsonl"])
        units = len(store_plan(recipe).units)
        del site.served[:]
        run_clean(f"{site.site.url}a.jsonl", tmp_path / "out", plan=LARGE)

    assert units == 3

    asked = sum(stop - start for _, start, stop in site.served)
    # the pages at both ends of a unit belong to its neighbors too, and the plan looks at both ends
    # of the file
    assert asked <= size + (2 * units + 4) * (1 << 16)
    assert max(stop - start for _, start, stop in site.served) <= LARGE["unit_bytes"]


def test_a_file_that_becomes_shorter_is_an_error():
    site = RangeSite({"a.jsonl": lines(400)})
    with site.site.running():
        [found] = source_files([InputEntry(path=f"{site.site.url}a.jsonl", store={"retries": 1})])
        file = found.path
        site.files["a.jsonl"] = lines(10)
        with pytest.raises(StorageError, match="changed while it was read: run again later"):
            file.open("rb").read()


@pytest.mark.parametrize(
    ("versions", "moment"), [(True, "listed"), (False, "read"), (True, "read")]
)
def test_a_file_that_changes_between_two_reads_fails_its_unit(versions, moment, tmp_path):
    """Also on a server that tells no version, and with the size unchanged."""
    site = RangeSite({"a.jsonl": lines(100)}, versions=versions)
    changed = site.files["a.jsonl"].replace(b"Document 0.", b"Document X.")

    with site.site.running(), pytest.MonkeyPatch.context() as patch:
        listed = remote_file.RemoteFile.observe
        calls = []

        def observe(self):
            calls.append(1)
            if len(calls) == (1 if moment == "listed" else 2):
                site.files["a.jsonl"] = changed
            return listed(self)

        patch.setattr(remote_file.RemoteFile, "observe", observe)

        with pytest.raises(
            Exception, match=r"changed (after the inputs were listed|while it was read)"
        ):
            run_clean(f"{site.site.url}a.jsonl", tmp_path / "out", plan=LARGE)


def test_signatures_and_keys_are_in_no_file(tmp_path):
    site = RangeSite({"a.jsonl": lines(40)})
    site.add_query("X-Amz-Signature=hush/hush-1&sig=hush-hush-2&part=1")

    with site.site.running():
        url = f"{site.site.url}a.jsonl?X-Amz-Signature=hush/hush-1&sig=hush-hush-2&part=1"
        cleaned = read(url, tmp_path / "out")
        assert {document.source for document in cleaned.documents} == {"default/a.jsonl"}
        site.faults = ["403"] * 2
        with pytest.raises(StorageError) as failed:
            read(url, tmp_path / "other")

    assert "hush" not in str(failed.value)

    for path in Path(tmp_path).rglob("*"):
        assert not path.is_file() or b"hush" not in path.read_bytes(), path


# Finding files
# --------------------------------------------------------------------------------------------------

NAMES = (
    "in/a.jsonl",
    "in/b.txt",
    "in/deep/er/c.jsonl",
    "in/.hidden/d.jsonl",
    "in/deep/.e.jsonl",
    "in/q?[1].jsonl",
)


@pytest.fixture
def listing():
    system = fsspec.filesystem("memory")
    system.pipe({f"/listing/{name}": b"{}\n" for name in NAMES})
    yield "memory://listing"
    system.rm("/listing", recursive=True)


def sources(url, **keys):
    return [file.source for file in source_files([InputEntry(path=url, **keys)])]


@pytest.mark.parametrize(
    "pattern", ["in/*.jsonl", "in/**/*.jsonl", "*/*", "in/*/*/c*", "in/[ab].*", "in/a.jsonl"]
)
def test_names_are_those_of_the_same_pattern_on_a_disk(listing, pattern, tmp_path):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"{}\n")

    assert (
        sources(f"{listing}/{pattern}", source="x")
        == sources(f"{tmp_path}/{pattern}", source="x")
        != []
    )


def test_a_name_of_the_web_loses_query_and_escapes():
    site = RangeSite({"a/b%20c.txt": b"x"})
    site.add_query("x=1/2")

    with site.site.running():
        assert sources(f"{site.site.url}a/b%20c.txt?x=1/2") == ["default/b c.txt"]
        with pytest.raises(
            ConfigurationError,
            match="a web server cannot list its files, so patterns do not work",
        ):
            sources(f"{site.site.url}a/*.txt")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("memory://listing/in/*.nothing", "no file matches this pattern"),
        ("memory://listing/in/", "expected a file or a pattern, got a folder"),
        ("nosuch://bucket/a.jsonl", "cannot open this type of store"),
        ("gs://bucket/a.jsonl", "install gcsfs"),
        ("simplecache::s3://bucket/a.jsonl", "chain file systems, are not supported"),
        (
            {"path": "memory://listing/in/a.jsonl", "store": {"retry": 1}},
            "did you mean 'input.store.retries'",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_way_out(listing, source, message, tmp_path):
    with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
        load_plan(recipe_for(source, tmp_path / "out"))
