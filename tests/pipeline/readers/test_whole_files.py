import bz2
import gzip
import lzma

import lz4.frame
import pytest
import zstandard

from pipeline.documents.document import FLAG_TRUNCATED_SOURCE
from pipeline.formats.limits import Limits
from pipeline.readers import Counted, detect
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


def test_a_page_may_name_its_charset_and_a_text_may_not(tmp_path):
    path = tmp_path / "file"
    path.write_bytes('<meta charset="cp1251">Привет'.encode("cp1251"))
    assert read(path, name="html")[0].text.endswith("Привет")


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


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.warc.gz", b"not gzip at all", ("warc", True)),
        ("a.txt", b"WARC/1.0\r\n", ("warc", True)),
        ("a.txt", gzip.compress(b"WARC/1.0\r\n"), ("warc", True)),
        ("a.txt", zstandard.ZstdCompressor().compress(b"WARC/1.0\r\n"), ("warc", False)),
        ("a.arc", b"filedesc://x", ("warc", True)),
        ("a", b"\xef\xbb\xbf\n <!DOCTYPE HTML>", ("html", False)),
        ("a.jsonl", b'{"text": 1}', ("jsonl", True)),
        ("a.jsonl.gz", gzip.compress(b"{}"), ("jsonl", False)),
        ("a.NDJSON", b"", ("jsonl", True)),
        ("a.htm.xz", b"", ("html", False)),
        ("a.md", b"# words", ("text", False)),
        ("a", b"", ("text", False)),
        ("a.parquet", b"", ("parquet", False)),
    ],
)
def test_magic_bytes_then_extension(tmp_path, name, content, expected):
    path = tmp_path / name
    path.write_bytes(content)
    assert detect(path) == expected
    assert detect(path, "text") == ("text", False)
