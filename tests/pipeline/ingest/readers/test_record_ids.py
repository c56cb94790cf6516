"""The id that a record has in its source is the `id` of its document's `extra`."""

import mailbox
from email.message import EmailMessage
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from warcio.archiveiterator import ArchiveIterator

from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import Rejection, read_rejects, write_rejects
from clozeline.pipeline.ingest.readers import RawRecord
from clozeline.pipeline.ingest.readers._rows import FieldOptions, make_record
from tests.pipeline.captures import http, members, page, read, record


def ids(items):
    return [item.extra.get("id") for item in items if isinstance(item, RawRecord)]


@pytest.mark.parametrize("pack", [b"".join, members])
def test_pages_have_the_record_ids_that_warcio_reads(tmp_path, pack):
    names = ["<urn:uuid:a-1>", "<urn:uuid:B-2>", None, "urn:x"]
    records = [
        record(http(page(number)), **{"WARC_Record_ID": None, "WARC-Record-ID": name})
        for number, name in enumerate(names)
    ]
    content = pack(records)
    (tmp_path / "pages.warc").write_bytes(content)
    expected = [
        each.rec_headers.get_header("WARC-Record-ID") for each in ArchiveIterator(BytesIO(content))
    ]

    assert expected == names
    assert ids(read(tmp_path / "pages.warc")) == expected


def test_messages_have_the_ids_that_the_standard_library_reads(tmp_path):
    box = mailbox.mbox(tmp_path / "made.mbox")
    for number in range(3):
        message = EmailMessage()
        message.set_content(f"Message {number}.")
        if number != 1:
            message["Message-ID"] = f"<{number}.{'x' * 90}@example.org>"
        box.add(message)
    box.close()
    box = mailbox.mbox(tmp_path / "made.mbox")
    expected = [message["Message-ID"] for message in box]
    box.close()

    assert expected.count(None) == 1
    assert ids(read(tmp_path / "made.mbox", name="mbox")) == [
        None if each is None else "".join(each.split()) for each in expected
    ]


def test_a_page_without_an_id_does_not_take_that_of_its_revision(tmp_path):
    revision = "<revision><id>9</id><text>Ein Satz.</text></revision>"
    title = "<title>T</title><ns>0</ns>"
    pages = f"<page>{title}<id>5</id>{revision}</page><page>{title}{revision}</page>"
    (tmp_path / "dump").write_text(f"<mediawiki>{pages}</mediawiki>")

    assert ids(read(tmp_path / "dump", name="mediawiki")) == ["5", None]


def test_the_id_stays_where_the_other_fields_are_too_long():
    row = {"text": "a", "id": "x-1", "long": "y" * 70_000}

    assert make_record(row, FieldOptions(), "jsonl", 0, 1).extra == {"dropped": True, "id": "x-1"}

    row["id"] = "z" * 70_000

    assert make_record(row, FieldOptions(), "jsonl", 0, 1).extra == {"dropped": True}


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({}, None),
        ({"id": None}, None),
        ({"id": ""}, ""),
        ({"id": 7}, "7"),
        ({"id": "07"}, "07"),
        ({"id": {"b": 1, "a": "é"}}, '{"a": "é", "b": 1}'),
    ],
)
def test_a_dropped_document_keeps_its_id_as_text(tmp_path, extra, expected):
    document = Document(uid=bytes(16), text="a", source="s", extra=extra)

    assert document.record_id == expected

    write_rejects(tmp_path / "r.arrow", [Rejection.from_document(document, "clean", "short")])

    assert [each.id for each in read_rejects(tmp_path / "r.arrow")] == [expected]


def test_bytes_of_a_table_become_text_or_digits(tmp_path):
    """A column of a fixed size holds hashes and ids: digits for each, also where all are letters."""
    table = pa.table(
        {
            "text": ["a", "b", "c"],
            "id": pa.array([b"abcd", b"\xff\x00ab", None], pa.binary(4)),
            "name": pa.array(["é".encode(), b"\xff", None], pa.binary()),
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")

    assert [item.extra for item in read(tmp_path / "rows.parquet", name="parquet")] == [
        {"id": "61626364", "name": "é"},
        {"id": "ff006162", "name": "ff"},
        {"id": None, "name": None},
    ]
