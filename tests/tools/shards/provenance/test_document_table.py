"""Documents found in the tables above a set, by uid and by address."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from clozeline.errors import IntegrityError
from clozeline.tools.shards.provenance.document_table import document_tables, documents_at, find_documents, read_table
from tests.tools.small_run import documents

DOCUMENTS = {document.uid: document for document in documents()}


def test_documents_are_found_from_every_folder_of_the_run(shard_sets: Path) -> None:
    tables = document_tables(shard_sets / "encode" / "manifest.json")
    assert [path.name[:15] for path in tables] == ["documents-00000", "documents-00001"]
    nested = shard_sets / "corrupt" / "masked_lm" / "train" / "manifest.json"
    assert document_tables(nested) == tables
    found = find_documents(nested, [*DOCUMENTS, bytes(16)])
    assert {uid: line["offset"] for uid, line in found.items()} == {uid: one.offset for uid, one in DOCUMENTS.items()}


def test_a_table_that_is_missing_is_named(shard_sets: Path, tmp_path: Path) -> None:
    for name in ("shard-00000-of-00002.arrow", "shard-00001-of-00002.arrow", "documents-00000-of-00002.arrow"):
        (tmp_path / "encode" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "encode" / name).touch()
    with pytest.raises(IntegrityError, match=r"encode/documents-00001-of-00002\.arrow: the document table is missing"):
        document_tables(tmp_path / "corrupt" / "train" / "manifest.json")
    (tmp_path / "encode" / "documents-00001-of-00002.arrow").touch()
    (tmp_path / "encode" / "shard-00000-of-00002.arrow").unlink()
    assert len(document_tables(tmp_path / "corrupt" / "train" / "manifest.json")) == 2, "also of a missing shard"
    assert document_tables(tmp_path.parent / "nothing" / "manifest.json") == []


def test_addresses_are_whole_or_begin_alike(shard_sets: Path) -> None:
    manifest = shard_sets / "encode" / "manifest.json"
    by_url = {document.url: uid for uid, document in DOCUMENTS.items()}
    url = "http://site.example/2?a=1&b=2"
    assert [*documents_at(manifest, url)] == [by_url[url]]
    wanted = {uid for other, uid in by_url.items() if other.startswith("http://site.example/2")}
    assert {*documents_at(manifest, "http://site.example/2*")} == wanted
    assert len(wanted) > 1


def test_another_file_of_that_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "documents-00000-of-00001.arrow"
    path.write_bytes(b"something else")
    with pytest.raises(IntegrityError, match="not a document table"):
        read_table(path, ("uid",))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.schema([("uid", pa.int8())])) as writer:
        writer.write(pa.record_batch({"uid": pa.array([1], pa.int8())}))
    with pytest.raises(IntegrityError, match="no tokens"):
        read_table(path, ("uid", "tokens"))
