"""Records of WARC files against those of FastWARC, and the forms that header fields may have."""

import os
from collections import Counter
from pathlib import Path

import pytest
from fastwarc import ArchiveIterator, WarcRecordType

from clozeline.pipeline.ingest.formats.charset import decode
from clozeline.pipeline.ingest.readers import RawRecord
from tests.pipeline.captures import counted, http, members, page, read, record


def assert_same_records(path: Path) -> None:
    """Compare the number of records by type, and offset, URL and text of each page."""
    items = read(path)
    types = Counter(
        (one.headers.get("WARC-Type") or "").lower() for one in ArchiveIterator(str(path), parse_http=False)
    )
    del types["response"]
    assert {f"type_{name}": count for name, count in types.items()} == {
        reason: count for reason, count in counted(items).items() if reason.startswith("type_")
    }
    pages = {item.locator: item for item in items if isinstance(item, RawRecord)}
    seen = 0
    for one in ArchiveIterator(str(path), record_types=WarcRecordType.response, auto_decode="all"):
        if one.stream_pos in pages:
            item, body = pages[one.stream_pos], one.reader.read()
            assert (item.url, item.text) == (
                one.headers.get("WARC-Target-URI"), decode(body, one.http_charset, meta=True)[0]
            )  # fmt: skip
            seen += 1
    assert seen == len(pages) > 0


@pytest.mark.parametrize(("name", "pack"), [("crawl.warc.gz", members), ("crawl.warc", b"".join)])
def test_records_are_those_of_fastwarc(tmp_path, name, pack):
    kinds = ["response", "request", "metadata"]
    records = [record(http(page(n)), f"http://example.org/{n}", kind=kinds[n % 3]) for n in range(60)]
    path = tmp_path / name
    path.write_bytes(pack(records))
    assert_same_records(path)


@pytest.mark.data
@pytest.mark.parametrize("name", ["aut/example", "chatnoir-resiliparse/warcfile", "whirlwind-python/whirlwind"])
def test_real_records_are_those_of_fastwarc(name):
    path = Path(os.environ.get("CLOZELINE_DATA", "")) / f"warc/{name}.warc.gz"
    if not path.is_file():
        pytest.skip(f"{path} is missing")
    assert_same_records(path)


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("2024-05-06T07:08:09.25Z", 1714979289),
        ("2024-05-06T07:08Z", 1714979280),
        ("2024-05-06", 1714953600),
        ("2024-05", None),
        ("2024-13-06T07:08:09Z", None),
        ("2024-05-06T07:08:61Z", None),
    ],
)
def test_dates_may_lack_the_time(tmp_path, date, seconds):
    path = tmp_path / "a.warc.gz"
    path.write_bytes(members([record(http(page(1)), WARC_Date=date)]))
    assert read(path)[0].date == seconds


def test_names_of_fields_have_any_case_and_values_may_be_folded(tmp_path):
    capture = record(http(page(1)), "http://example.org/a")
    for old, new in ((b"WARC-Type:", b"warc-TYPE :"), (b"Target-URI: http", b"Target-URI:\r\n \t http")):
        assert old in capture
        capture = capture.replace(old, new)
    path = tmp_path / "a.warc.gz"
    path.write_bytes(members([capture]))
    assert [(item.url, item.text) for item in read(path)] == [("http://example.org/a", page(1).decode())]
