"""The identity of documents, and their form in files."""

from dataclasses import replace
from hashlib import blake2b

import pyarrow as pa
import pytest

from clozeline.errors import IntegrityError, StorageError
from clozeline.pipeline.ingest.documents.document import Document, document_uid
from clozeline.pipeline.ingest.documents.files import (
    Rejection,
    read_documents,
    read_rejects,
    write_documents,
    write_rejects,
)
from clozeline.pipeline.ingest.documents.schema import DOCUMENT_SCHEMA


def test_a_uid_is_the_hash_of_where_the_record_begins():
    """Written out by hand: it must never change, because shards and held-out sets follow from
    it."""
    head = b"clozeline-doc\0wiki\0crawl/a.warc.gz\0warc-gz\0"
    place = (1000).to_bytes(8, "little")

    assert (
        document_uid("wiki", "crawl/a.warc.gz", "warc-gz", 1000)
        == blake2b(head + place, digest_size=16).digest()
    )
    assert (
        document_uid("wiki", "crawl/a.warc.gz", "warc-gz", 1000).hex()
        == "a1f1a26165d78c1dcda0740e4a4e9cc1"
    )


def documents(count):
    for i in range(count):
        yield Document(
            uid=i.to_bytes(16, "big"),
            text=f"text {i} ü " * 9,
            source=f"part-{i // 700}",
            host=f"host-{i}" if i % 3 else None,
            url=f"http://host-{i}/" if i % 3 else None,
            date=1_700_000_000 + i if i % 2 else None,
            language_score=0.5,
            offset=2**40 + i,
            extra={"b": i, "a": "ä"} if i % 5 == 0 else {},
        )


def test_documents_come_back_equal(tmp_path):
    path = tmp_path / "000000.arrow"
    for count in (1500, 0):
        assert write_documents(path, documents(count)) == count
        assert list(read_documents(path)) == list(documents(count))

    first = next(documents(1)).as_row()

    assert set(first) == set(DOCUMENT_SCHEMA.names)
    assert first["extra"] == '{"a": "ä", "b": 0}'


def test_batches_are_bounded_in_rows_and_text(tmp_path):
    path = tmp_path / "rows"
    write_documents(path, documents(1100))

    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
        assert [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)] == [
            512,
            512,
            76,
        ]

    big = [replace(document, text="x" * (5 * 2**20)) for document in documents(3)]
    write_documents(path, big)
    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
        assert reader.num_record_batches == 3


def test_rejections_come_back_and_show_text_for_the_chosen_share(tmp_path):
    rows = [
        Rejection.from_document(
            document, stage="clean", reason="too_short", detail="y" * 999, keep_text=0.5, seed=7
        )
        for document in documents(300)
    ]

    write_rejects(tmp_path / "rejects", rows)

    assert list(read_rejects(tmp_path / "rejects")) == rows

    shown = [row for row in rows if row.sample_text is not None]

    assert 100 < len(shown) < 200
    assert all(len(row.detail) == 200 and row.n_chars > 0 for row in rows)
    assert (
        Rejection.from_document(
            next(documents(1)), stage="s", reason="r", keep_text=0.0
        ).sample_text
        is None
    )


def test_a_file_that_is_not_whole_is_an_error_with_its_name(tmp_path):
    path = tmp_path / "documents.arrow"
    write_documents(path, documents(30))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(IntegrityError, match=r"documents\.arrow"):
        list(read_documents(path))
    path.write_bytes(b"")
    with pytest.raises(IntegrityError, match=r"documents\.arrow"):
        list(read_documents(path))
    write_rejects(path, [])
    with pytest.raises(IntegrityError, match="expected the columns"):
        list(read_documents(path))
    with pytest.raises(StorageError, match="absent"):
        list(read_documents(tmp_path / "absent"))
