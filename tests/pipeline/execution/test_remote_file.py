"""Inputs by URL: the same documents as from a disk, by ranges, with retries, and never silently
from changed files."""

import gzip
import io
import json

import fsspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from clozeline.errors import PartialFailureError, StorageError
from clozeline.pipeline.block_options import StoreOptions
from clozeline.pipeline.execution import remote_file
from clozeline.pipeline.execution.inputs import source_files
from clozeline.pipeline.execution.plan import load_plan
from clozeline.pipeline.recipe import InputEntry
from tests.pipeline.clean.cleaning import recipe_for, run_clean
from tests.range_site import RangeSite
from tests.refusals import refused

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
    "d.parquet": table(100),
    "deep/f.txt": SENTENCE.encode(),
    "j.jsonl": b"",
    "q?[1] 100%.jsonl": lines(5),
    ".hidden.jsonl": lines(1),
    "deep/.hidden/h.jsonl": lines(1),
}


@pytest.fixture(autouse=True)
def fresh_store(monkeypatch):
    """Each test begins like a new process, and retries do not wait."""
    remote_file._stores.clear()
    monkeypatch.setattr("clozeline.pipeline.shards.store._LONGEST_PAUSE_S", 0.0)


@pytest.fixture
def places(tmp_path):
    """FILES in a folder, and in fsspec's store in memory."""
    system = fsspec.filesystem("memory")
    for name, content in FILES.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(content)
        system.pipe_file(f"/bucket/in/{name}", content)
    yield f"{tmp_path}/in", "memory://bucket/in"
    system.rm("/bucket", recursive=True)


def test_a_pattern_in_a_store_gives_the_documents_of_a_local_folder(places, tmp_path):
    def read(name):
        pattern = f"{places[name]}/**/*"
        plan = load_plan(recipe_for(pattern, tmp_path / str(name), plan=PLAN))
        found = run_clean(pattern, tmp_path / str(name), plan=PLAN)
        return found.documents, plan.names, plan.changes

    documents, units, _ = read(0)

    assert len(documents) == 506
    assert read(1) == (documents, units, {})

    changed = FILES["a.jsonl"].replace(b"Document 7.", b"Document 8.")
    fsspec.filesystem("memory").pipe_file("/bucket/in/a.jsonl", changed)
    (tmp_path / "in/a.jsonl").write_bytes(changed)
    again, _, changes = read(1)

    assert changes == {"new": 0, "changed": 1, "removed": 0}
    assert documents != again == read(0)[0]


def sources(url, **keys):
    return [file.source for file in source_files([InputEntry(path=url, **keys)])]


@pytest.fixture
def site():
    """A site with a file of 100 documents."""
    site = RangeSite({"a.jsonl": lines(100)})
    with site.site.running():
        yield site


def test_units_are_asked_for_once(site, tmp_path):
    site.files["a.jsonl"] = lines(3000)
    url = f"{site.site.url}a.jsonl"
    run_clean(url, tmp_path / "out", plan=LARGE)
    sizes = [stop - start for _, start, stop in site.served]

    # each of three units reads on behind its end, and the plan looks at both ends of the file
    assert sum(sizes) <= len(site.files["a.jsonl"]) + 3 * (1 << 20) + 8 * (1 << 16)


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize(
    "edit",
    [
        (b"Document 0.", b"Document X."),
        (b"Document 99.", b"Document 9X."),
        (lines(100), lines(10)),
    ],
)
def test_a_file_that_changes_once_it_was_seen_fails_its_unit(
    site, versions, edit, tmp_path, monkeypatch
):
    """Also on a server that tells no version, and with the size unchanged."""
    site._versions = versions
    observe = remote_file.RemoteFile.observe

    def look_and_change(self):
        seen = observe(self)
        site.files["a.jsonl"] = site.files["a.jsonl"].replace(*edit)
        return seen

    monkeypatch.setattr(remote_file.RemoteFile, "observe", look_and_change)
    with pytest.raises(PartialFailureError, match=r"a\.jsonl.* changed"):
        run_clean(f"{site.site.url}a.jsonl", tmp_path / "out", plan=LARGE)


def test_signatures_and_keys_are_in_no_file(site, tmp_path):
    query = "X-Amz-Signature=hush/hush-1&sig=hush-hush-2&part=1"
    site.add_query(query)
    url = f"{site.site.url}a.jsonl?{query}"
    cleaned = run_clean(url, tmp_path / "out")

    assert {document.source for document in cleaned.documents} == {"default/a.jsonl"}

    site.faults = ["403"] * 2
    with pytest.raises(StorageError) as failed:
        run_clean(url, tmp_path / "other")

    assert "hush" not in str(failed.value)
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"hush" not in path.read_bytes(), path


def test_a_name_of_the_web_loses_query_and_escapes():
    site = RangeSite({"a/b%20c.txt": b"x"})
    site.add_query("x=1/2")

    with site.site.running():
        assert sources(f"{site.site.url}a/b%20c.txt?x=1/2") == ["default/b c.txt"]
        with refused("a web server cannot list its files"):
            sources(f"{site.site.url}a/*.txt")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("memory://bucket/in/", "expected a file or a pattern, got a folder"),
        ("nosuch://bucket/a.jsonl", r"cannot open this type of store"),
        ("simplecache::s3://bucket/a.jsonl", "chain file systems, are not supported"),
        ({"path": "memory://bucket/in/a.jsonl", "store": {"retry": 1}}, "input.store.retries"),
    ],
)
@pytest.mark.usefixtures("places")
def test_what_cannot_be_read_is_refused_with_a_way_out(source, message, tmp_path):
    with refused(message):
        load_plan(recipe_for(source, tmp_path / "out"))


def test_a_store_is_opened_once_with_its_options():
    first, again, other = (
        remote_file._open_store(f"memory://x/{retries}", StoreOptions(retries=retries // 2))
        for retries in (2, 3, 4)
    )
    assert first is again is not other
