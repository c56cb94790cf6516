import gzip
import random

import brotli
import pytest
import zstandard

from clozeline.pipeline.ingest.formats.decompression import Damage
from clozeline.pipeline.ingest.formats.http_message import (
    explain_not_html,
    parse_content_type,
    parse_response,
)
from clozeline.pipeline.ingest.formats.limits import InputLimits


@pytest.mark.parametrize(
    ("message", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody", 200, b"body"),
        (b"HTTP/1.0 200\nA: b\n\nbody", 200, b"body"),
        (b"http/2 404 Not Found\r\n\r\n", 404, b""),
        (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 500 x\r\n\r\n", 200, b"HTTP/1.1 500 x\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nA: b", 200, b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 203 x\r\nA: b\r\n\r\nbody", 203, b"body"),
        (
            b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" * 9 + b"HTTP/1.1 200 OK\r\n\r\nbody",
            200,
            b"body",
        ),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x81\x05", 101, b"\x81\x05"),
        (b":status: 200\r\ncontent-type: text/html\r\n\r\nbody", 200, b"body"),
        (b"HTTP/2 200\r\n\r\nbody", 200, b"body"),
    ],
)
def test_messages_are_split(message, status, body):
    response = parse_response(message, InputLimits())
    assert (response.status, response.body) == (status, body)


@pytest.mark.parametrize("message", [b"", b"<html>", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK"])
def test_what_is_no_message_is_none(message):
    assert parse_response(message, InputLimits()) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('Text/HTML; Charset="UTF-8"', ("text/html", "UTF-8")),
        ("text/html;charset=latin-1; x=y", ("text/html", "latin-1")),
        ("text/html", ("text/html", None)),
        ("", ("", None)),
        (None, ("", None)),
    ],
)
def test_content_type(value, expected):
    assert parse_content_type(value) == expected


def _layers(count, inner=b"<p>text</p>"):
    body = inner
    for _ in range(count):
        body = gzip.compress(body, mtime=0)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {','.join(['gzip'] * count)}\r\n\r\n"
    return head.encode() + body


def test_layers_of_encodings_are_few():
    response = parse_response(_layers(4), InputLimits())
    assert (response.body, response.is_complete) == (b"<p>text</p>", True)
    for count in (5, 1002):
        with pytest.raises(Damage, match="content_encoding"):
            parse_response(_layers(count), InputLimits())


@pytest.mark.parametrize(("record_bytes", "fits"), [(6_000_000, True), (3_900_000, False)])
def test_all_layers_of_a_body_share_one_limit(record_bytes, fits):
    """Two layers that store 2 MB each: a limit between 2 and 4 MB holds either of them, but not
    both."""
    inner = gzip.compress(b"<" + random.Random(1).randbytes(2_000_000), 0, mtime=0)
    message = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\n\r\n" + gzip.compress(
        inner, 0, mtime=0
    )

    if fits:
        assert (
            len(parse_response(message, InputLimits(record_bytes=record_bytes)).body) == 2_000_001
        )
    else:
        with pytest.raises(Damage, match="bomb"):
            parse_response(message, InputLimits(record_bytes=record_bytes))


@pytest.mark.parametrize(
    "pack", [gzip.compress, brotli.compress, zstandard.ZstdCompressor().compress]
)
def test_a_body_is_bounded_by_the_record_limit(pack):
    """A body is decoded up to the limit.

    One that ends early is incomplete, one without a decoded byte is damage.
    """
    name = {gzip.compress: "gzip", brotli.compress: "br"}.get(pack, "zstd")
    body = random.Random(1).randbytes(100_000).hex().encode()
    packed = pack(body)

    def respond(content, limit):
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {name}\r\n\r\n"
        return parse_response(head.encode() + content, InputLimits(record_bytes=limit))

    response = respond(packed, 200_000)

    assert (response.body, response.is_complete) == (body, True)

    with pytest.raises(Damage, match="bomb"):
        respond(packed, 199_999)
    response = respond(packed[:-1000], 200_000)

    assert body.startswith(response.body)
    assert (len(response.body) > 100_000, response.is_complete) == (True, False)

    with pytest.raises(Damage, match="content_encoding"):
        respond(packed[:9], 200_000)


@pytest.mark.parametrize(
    ("body", "html", "contradicts"),
    [
        (b"<!DOCTYPE HTML><html>", True, False),
        (b"\xef\xbb\xbf \n\t<HTML lang=en>", True, False),
        (b"<p>only a fragment", True, False),
        (b"<h1/>", True, False),
        (b"<!-- a comment -->", True, False),
        (b"<bold>", False, False),
        (b"<?xml version='1.0'?><rss>", False, False),
        (b"a < b", False, False),
        (b"%PDF-1.7\n", False, True),
        (b"\x89PNG\r\n\x1a\n", False, True),
        (gzip.compress(b"<html>", mtime=0), False, True),
        (b'{"a": 1}\n', False, True),
        (b' [ {"a": [1]} ]', False, True),
        (b"{a b", False, False),
        (b"[1, 2", False, False),
        (b"[note] A page about arrays]", False, False),
        (b"{{ template }} <p>", False, False),
        (b" " * 1000 + b"<html>", True, False),
        (b" " * 1024 + b"<html>", False, False),
    ],
)
def test_pages_are_known_by_their_first_bytes(body, html, contradicts):
    """Without a declared type, and where HTML is declared."""
    undeclared = "" if html else "mime_contradicted" if contradicts else "mime_unknown"
    assert explain_not_html("", body) in (undeclared, "mime_unknown")
    assert (explain_not_html("", body) == "") == html
    assert explain_not_html("text/html", body) == ("mime_contradicted" if contradicts else "")
