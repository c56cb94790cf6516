"""The identity of documents, and their form in files."""

import hashlib
import json
import struct
from dataclasses import replace
from fractions import Fraction
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from clozeline.errors import IntegrityError, StorageError
from clozeline.pipeline.ingest.documents.copies import CopyFactors, iterate_languages
from clozeline.pipeline.ingest.documents.document import Document, document_uid
from clozeline.pipeline.ingest.documents.files import (
    Rejection,
    read_documents,
    read_rejects,
    write_documents,
    write_rejects,
)
from clozeline.pipeline.ingest.documents.schema import DOCUMENT_SCHEMA
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.recorded_file import RecordedFile


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


UIDS = [hashlib.md5(bytes([number])).digest() for number in range(200)]
factors = st.fractions(0, 255, max_denominator=10**12)


@given(
    factor=factors,
    seed=st.integers(0, 2**63 - 1),
    uid=st.sampled_from(UIDS),
)
def test_copies_are_drawn_by_a_word_of_the_uid(factor, seed, uid):
    word = xxhash.xxh3_64_intdigest(uid + b"balance" + struct.pack("<Q", seed))
    whole = factor.numerator // factor.denominator
    drawn = Fraction(word, 2**64) < factor - whole
    assert CopyFactors({"en": {"web": factor}}, seed).copies(uid, "en", "web") == whole + drawn


def rows(languages, targets, sources):
    uids = np.frombuffer(b"".join(UIDS[: len(languages)]), np.uint8).reshape(-1, 16)
    fixed = {
        "document_uid": uids,
        "language": np.array(languages, np.uint8),
        "source_group": np.array(sources, np.uint16),
    }

    columns = {} if targets is None else {"target_language": Ragged.from_lists(targets, np.uint8)}
    return RowBatch(fixed, columns)


def test_each_document_has_the_factor_of_its_language_and_source():
    found = CopyFactors(
        {
            "de": {"web": Fraction(1)},
            "sw": {"web": Fraction(2), "books": Fraction(5)},
            "de-sw": {"web": Fraction(7)},
        },
        1,
    )

    documents = rows([0, 1, 1, 0], [[], [], [], [1]], [1, 1, 0, 1])

    assert list(iterate_languages(documents, ["de", "sw"])) == ["de", "sw", "sw", "de-sw"]
    assert found.count_copies(
        documents,
        ["de", "sw"],
        ["books", "web"],
    ).tolist() == [1, 2, 5, 7]
    assert found.count_copies(
        rows([1, 0], None, [0, 1]), ["de", "sw"], ["books", "web"]
    ).tolist() == [
        5,
        1,
    ]


def test_factors_are_read_as_exact_numbers(tmp_path):
    path = tmp_path / "factors.json"
    path.write_text(json.dumps({"factors": {"en": {"web": "1/3", "books": "2"}}}), encoding="utf-8")
    read = CopyFactors.read(RecordedFile(path), 4)
    assert read == CopyFactors(
        {
            "en": {
                "web": Fraction(1, 3),
                "books": Fraction(2),
            }
        },
        4,
    )
