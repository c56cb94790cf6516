from dataclasses import replace

import pyarrow as pa
import pytest

from clozeline.errors import IntegrityError, StorageError
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import (
    Rejection,
    read_documents,
    read_rejects,
    write_documents,
    write_rejects,
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
    assert write_documents(path, documents(1500)) == 1500
    assert list(read_documents(path)) == list(documents(1500))


def test_equal_documents_give_equal_bytes(tmp_path):
    for name in ("one", "two"):
        write_documents(tmp_path / name, documents(1100))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_batches_are_bounded_in_rows_and_text(tmp_path):
    path = tmp_path / "rows"
    write_documents(path, documents(1100))
    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
        assert [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)] == [512, 512, 76]
    big = [replace(document, text="x" * (5 * 2**20)) for document in documents(3)]
    write_documents(path, big)
    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
        assert reader.num_record_batches == 3


def test_an_empty_part_is_a_file_too(tmp_path):
    assert write_documents(tmp_path / "none", []) == 0
    assert list(read_documents(tmp_path / "none")) == []


def test_rejections_come_back_and_show_text_for_the_chosen_share(tmp_path):
    rows = [
        Rejection.of(document, stage="clean", reason="too_short", detail="y" * 999, keep_text=0.5, seed=7)
        for document in documents(300)
    ]
    write_rejects(tmp_path / "rejects", rows)
    assert list(read_rejects(tmp_path / "rejects")) == rows
    shown = [row for row in rows if row.sample_text is not None]
    assert 100 < len(shown) < 200
    assert all(len(row.detail) == 200 and row.n_chars > 0 for row in rows)
    assert Rejection.of(next(documents(1)), stage="s", reason="r", keep_text=0.0).sample_text is None


def test_a_file_that_is_not_whole_is_an_error_with_its_name(tmp_path):
    path = tmp_path / "documents.arrow"
    write_documents(path, documents(30))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(IntegrityError, match=r"documents\.arrow"):
        list(read_documents(path))
    path.write_bytes(b"")
    with pytest.raises(IntegrityError, match=r"documents\.arrow"):
        list(read_documents(path))
    with pytest.raises(StorageError, match="absent"):
        list(read_documents(tmp_path / "absent"))


def test_columns_of_another_kind_are_refused(tmp_path):
    write_rejects(tmp_path / "rejects", [])
    with pytest.raises(IntegrityError, match="expected the columns"):
        list(read_documents(tmp_path / "rejects"))
