"""Files that are one document: texts and pages."""

import gzip

import pytest

from clozeline.pipeline.ingest.documents.document import (
    FLAG_DECODED_BY_GUESS,
    FLAG_TRUNCATED_SOURCE,
)
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers import SkippedRecord
from tests.pipeline.captures import read
from tests.pipeline.ingest.formats.test_decompression import PACK


@pytest.mark.parametrize("pack", [bytes, *PACK.values()])
@pytest.mark.parametrize(("name", "markup"), [("text", False), ("html", True)])
def test_the_file_is_the_document(write, pack, name, markup):
    content = "<html><p>Grüße\r\n\naus Köln \0".encode()
    path = write(pack(content))
    (item,) = read(path, name=name)

    assert (item.text, item.is_markup, item.locator, item.locator_type) == (
        content.decode(),
        markup,
        0,
        name,
    )
    assert item.length == path.stat().st_size


@pytest.mark.parametrize("encoding", ["utf-8", "cp1251", "koi8-r", "utf-16"])
def test_a_page_may_name_its_encoding(write, encoding):
    page = f"<html><head><meta charset='{encoding}'></head><p>Привет, мир</p>"
    (item,) = read(write(page.encode(encoding)), name="html")
    assert (item.text, item.flags) == (page, 0)


def test_markup_names_no_encoding_for_a_text(write):
    (item,) = read(
        write(b'<meta charset="cp1251">' + "déjà vu, naïve café ".encode("latin-1") * 5),
        name="text",
    )

    assert item.text.endswith("naïve café ")
    assert item.flags == FLAG_DECODED_BY_GUESS


@pytest.mark.parametrize("name", ["text", "html"])
def test_what_cannot_be_read_is_counted(write, name):
    assert read(write(b"\x00\xff\xfe\x81" * 1000), name=name) == [
        SkippedRecord("malformed", "charset", 4000)
    ]

    large = read(write(b"x" * 100), name=name, limits=InputLimits(record_bytes=99))

    assert large == [SkippedRecord("malformed", "too_large", 100)]
    assert [
        item.group for item in read(write(gzip.compress(b"x" * 9)[:-20] + b"\xff" * 20), name=name)
    ] == ["malformed"]


def test_a_truncated_file_keeps_what_it_gives(write):
    (item,) = read(write(gzip.compress(b"all of it")[:-4]), name="text")
    assert (item.text, item.flags) == ("all of it", FLAG_TRUNCATED_SOURCE)
