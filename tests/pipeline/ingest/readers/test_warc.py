"""Records of WARC files against those of FastWARC, and the forms that header fields may have."""

import gzip
import random
from itertools import pairwise

import pytest

from clozeline.pipeline.ingest.documents.document import FLAG_TRUNCATED_SOURCE
from clozeline.pipeline.ingest.readers import RawRecord, detect_reader
from tests.pipeline.captures import counted, http, members, page, read, record, responses, texts
from tests.refusals import refused

PAGES = [page(number).decode() for number in range(5)]


def test_locator_and_length_find_the_record_again(write):
    records = responses(3)
    path = write(members(records))
    for item, wanted in zip(read(path), records, strict=True):
        assert (
            gzip.decompress(path.read_bytes()[item.locator : item.locator + item.length]) == wanted
        )
        assert item.locator_type == "warc-gz"

    plain = write(b"".join(records), "plain.warc")
    for item, wanted in zip(read(plain), records, strict=True):
        assert plain.read_bytes()[item.locator : item.locator + item.length] == wanted.removesuffix(
            b"\r\n\r\n"
        )


def test_what_a_record_says_of_itself(write):
    cut = record(http(page(1)), "http://Example.org/a", WARC_Truncated="length")
    first = read(write(members([cut])))[0]

    assert (first.url, first.date) == ("http://Example.org/a", 1714979289)
    assert (first.flags, first.is_markup) == (FLAG_TRUNCATED_SOURCE, True)

    bare = record(http(page(1)), None, WARC_Record_ID=None, WARC_Date="yesterday")
    text = record("Grüße".encode(), kind="conversion")
    without_http = record(page(2), Content_Type="text/html")
    first, second, third = read(write(members([bare, text, without_http])))

    assert (first.url, first.date) == (None, None)
    assert (second.text, second.is_markup) == ("Grüße", False)
    assert (third.text, third.is_markup) == (PAGES[2], True)


def test_records_that_are_no_captures_are_counted_by_type(write):
    kinds = ["warcinfo", "request", "metadata", "revisit", "continuation", "un known"]
    items = read(write(members([record(b"x", kind=kind) for kind in kinds])))
    assert counted(items) == {f"type_{kind}": 1 for kind in [*kinds[:-1], "other"]}


@pytest.mark.parametrize(
    ("kind", "media", "body", "wanted"),
    [
        ("conversion", "text/plain", b"<p>a < b", False),
        ("conversion", "text/plain; charset=utf-8", b"words", False),
        ("conversion", "text/markdown", b"# words", False),
        (
            "conversion",
            "text/plain",
            b'<meta charset="windows-1251"> is a line of HTML: \xc3\xa9',
            False,
        ),
        ("conversion", None, b"words", False),
        ("conversion", None, page(1), True),
        ("conversion", "text/html", page(1), True),
        ("conversion", "application/xhtml+xml", page(1), True),
        ("conversion", "application/json", b'{"a": 1}', "mime_application/json"),
        ("conversion", "image/png", b"\x89PNG\r\n", "mime_image/png"),
        ("resource", "text/html", page(1), True),
        ("resource", None, page(1), True),
        ("resource", "text/plain", b"a log", "mime_text/plain"),
        ("resource", "application/http; msgtype=response", http(page(1)), True),
        ("resource", "application/http", b"no message", "http"),
        ("response", "text/dns", b"20200101 example.org. 1 IN A 1.2.3.4", "mime_text/dns"),
        (
            "response",
            "application/http",
            http(page(1), status="203 Non-Authoritative Information"),
            True,
        ),
        ("response", "application/http", b"HTTP/1.1 100 Continue\r\n\r\n" + http(page(1)), True),
        ("response", "application/http", http(page(1), status="206 Partial Content"), "status_206"),
        ("response", "application/http", http(page(1), status="202 Accepted"), "status_202"),
        *(
            ("response", "application/http", payload, reason)
            for payload, reason in (
                (http(page(1), status="404 Not Found"), "status_404"),
                (http(page(1), "Location: /", status="301 Moved"), "status_301"),
                (http(b""), "empty_body"),
                (http(b"", "Content-Encoding: gzip"), "empty_body"),
                (http(b"body { color: red }", content_type="text/css"), "mime_text/css"),
                (http(b"x", content_type="no sense; at all"), "mime_other"),
                (http(b"just words", content_type=None), "mime_unknown"),
                (http(b"%PDF-1.4 ..."), "mime_contradicted"),
                (b"no status line", "http"),
                (http(b"\x00\x01\x02\x03" * 99, "Content-Encoding: gzip"), "content_encoding"),
                (http(b"\x00\x80\xff" * 400), "charset"),
            )
        ),
    ],
)
def test_records_are_pages_texts_or_ignored_by_media_type(write, kind, media, body, wanted):
    """`wanted` is whether the record is a page, or the reason why it is neither page nor text."""
    items = read(
        write(
            members(
                [
                    record(body, kind=kind, Content_Type=media),
                    *responses(1),
                ]
            )
        )
    )
    if isinstance(wanted, str):
        assert counted(items) == {wanted: 1}
        return

    assert counted(items) == {}
    assert items[0].text == (PAGES[1] if wanted else body.decode())
    assert (items[0].is_markup, items[0].flags) == (wanted, 0)


@pytest.mark.parametrize(
    ("payload", "fields"),
    [
        (http(page(1)), {"WARC_Truncated": "time"}),
        (http(page(1)), {"WARC_Segment_Number": "1"}),
        (http(page(1), "Content-Length: 9999"), {}),
        (
            http(page(1), status="206 x").replace(
                b"\r\n", b"\r\nContent-Range: bytes 0-9/9999\r\n", 1
            ),
            {},
        ),
        (http(b"%x\r\n" % len(page(1)) + page(1) + b"\r\n", "Transfer-Encoding: chunked"), {}),
    ],
)
def test_what_is_cut_is_flagged(write, payload, fields):
    items = read(
        write(members([record(payload, **fields), record(b"the rest", kind="continuation")]))
    )
    assert (items[0].text, items[0].flags) == (PAGES[1], FLAG_TRUNCATED_SOURCE)
    assert counted(items) == {"type_continuation": 1}


@pytest.mark.parametrize("pack", [b"".join, members])
@pytest.mark.parametrize("missing", [1, 3])
def test_a_length_a_little_too_small_keeps_the_record(write, pack, missing):
    """The record is kept with the payload that its length claims, as by warcio."""
    records = responses(4)
    payload = http(page(1))
    records[1] = record(payload, Content_Length=str(len(payload) - missing))
    path = write(pack(records), "short.warc")
    items = read(path)

    assert texts(items) == [
        PAGES[0],
        PAGES[1][:-missing],
        *PAGES[2:4],
    ]
    assert [item.flags for item in items if isinstance(item, RawRecord)] == [
        0,
        FLAG_TRUNCATED_SOURCE,
        0,
        0,
    ]


@pytest.mark.parametrize("pack", [b"".join, members])
@pytest.mark.parametrize("end", [b"\n", b"\r\r\n", b"\r\r\r\n"])
def test_ends_of_header_lines_may_hold_any_number_of_returns(write, pack, end):
    """Text mode on Windows makes two of one; bodies stay as they are."""
    records = []

    for item in responses(4):
        head, message, body = item.removesuffix(b"\r\n\r\n").split(b"\r\n\r\n", 2)
        payload = (message + b"\r\n\r\n").replace(b"\r\n", end) + body
        head = head.replace(
            b"Content-Length: %d" % len(message + b"1234" + body),
            b"Content-Length: %d" % len(payload),
        )
        records.append((head + b"\r\n\r\n").replace(b"\r\n", end) + payload + end * 2)

    items = read(write(pack(records), "ends.warc"))

    assert texts(items) == PAGES[:4]
    assert counted(items) == {}


def test_a_record_may_end_after_one_line_end_where_its_member_ends(write):
    first, second = responses(2)
    items = read(
        write(
            gzip.compress(first.removesuffix(b"\r\n")) + gzip.compress(b"garbage line\r\n" + second)
        )
    )

    assert texts(items) == PAGES[:2]
    assert {item.flags for item in items if isinstance(item, RawRecord)} == {0}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        *(
            (record(http(page(1)), Content_Length=length), "bad_length")
            for length in ("17", "99999", "x12", "-5", str(2**63), "", None, "9" * 400)
        ),
        (b"WARC/1.0\r\n" + b"X-Filler: y\r\n" * 9000, "bad_header"),
        (record(http(page(1)), WARC_Type=None), "bad_header"),
    ],
)
@pytest.mark.parametrize("pack", [b"".join, members])
def test_a_wrong_length_or_header_costs_one_record(write, broken, reason, pack):
    records = responses(4)
    records[1] = broken
    items = read(write(pack(records), "wrong.warc"))
    assert texts(items) == [PAGES[0], *PAGES[2:4]]
    assert counted(items) == {reason: 1}


def test_a_bomb_is_not_unpacked(write):
    parts = [gzip.compress(item) for item in responses(3)]
    parts[1] = gzip.compress(record(http(b"<p>" + bytes(80 << 20))))
    items = read(write(b"".join(parts)))
    assert texts(items) == [PAGES[0], PAGES[2]]
    assert counted(items) == {"bomb": 1}


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_an_arc_file_is_refused_with_the_command_that_makes_a_warc_file(write, pack):
    path = write(
        pack(b"filedesc://a.arc 0.0.0.0 20080430204825 text/plain 76\n1 0 Archive\n"), "a.arc.gz"
    )
    with refused("warcio recompress"):
        detect_reader(path)


CAPTURES = [record(http(page(n)), kind="response" if n % 5 else "request") for n in range(40)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.warc.gz", members(CAPTURES)),
        ("c.warc", b"".join(CAPTURES)),
        # members that cut records
        (
            "c.warc.gz",
            members(
                [
                    b"".join(CAPTURES)[at : at + 1000]
                    for at in range(0, len(b"".join(CAPTURES)), 1000)
                ]
            ),
        ),
    ],
    ids=["members", "plain", "cut"],
)
def test_ranges_hold_every_record_once(write, name, content):
    path = write(content, name)
    size = path.stat().st_size
    whole = [(item.locator, item.text) for item in read(path) if isinstance(item, RawRecord)]

    assert len(whole) == 32

    draw = random.Random(5)

    for pieces in range(1, 51):
        bounds = [
            0,
            *sorted(draw.randrange(size) for _ in range(pieces)),
            size,
        ]
        found = [item for start, end in pairwise(bounds) for item in read(path, start, end)]
        assert [(item.locator, item.text) for item in found if isinstance(item, RawRecord)] == whole
