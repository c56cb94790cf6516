import bz2
import gzip
import lzma

import lz4.frame
import pytest
import zstandard

from clozeline.pipeline.ingest.documents.document import FLAG_TRUNCATED_SOURCE
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import Counted
from tests.pipeline.captures import read

PACKINGS = [bytes, gzip.compress, bz2.compress, lzma.compress, lz4.frame.compress, zstandard.ZstdCompressor().compress]


@pytest.mark.parametrize("pack", PACKINGS)
@pytest.mark.parametrize(("name", "markup"), [("text", False), ("html", True)])
def test_the_file_is_the_document(tmp_path, pack, name, markup):
    path = tmp_path / "file"
    content = "<html><p>Grüße\n\naus Köln".encode()
    path.write_bytes(pack(content))
    item = read(path, name=name)[0]
    assert (item.text, item.markup, item.locator, item.kind) == (content.decode(), markup, 0, name)
    assert item.length == path.stat().st_size


@pytest.mark.parametrize("name", ["text", "html"])
def test_what_cannot_be_read_is_counted(tmp_path, name):
    path = tmp_path / "file"
    path.write_bytes(b"\x00\xff\xfe\x81" * 1000)
    assert read(path, name=name) == [Counted("malformed", "charset", 4000)]
    path.write_bytes(b"x" * 100)
    assert read(path, name=name, limits=Limits(record_bytes=99)) == [Counted("malformed", "too_large", 100)]
    path.write_bytes(gzip.compress(b"x" * 9)[:-20] + b"\xff" * 20)
    assert [item.group for item in read(path, name=name)] == ["malformed"]


def test_a_truncated_file_keeps_what_it_gives(tmp_path):
    path = tmp_path / "file.txt.gz"
    path.write_bytes(gzip.compress(b"all of it")[:-4])
    item = read(path, name="text")[0]
    assert (item.text, item.flags) == ("all of it", FLAG_TRUNCATED_SOURCE)
