import gzip
import random

import pytest

from clozeline.pipeline.ingest.formats.charset import decode
from clozeline.pipeline.ingest.formats.content_sniffing import contradicts_html, looks_like_html
from clozeline.pipeline.ingest.formats.decompression import Damage, ZlibDecoder
from clozeline.pipeline.ingest.formats.http_message import content_type, parse_response
from clozeline.pipeline.ingest.formats.limits import Limits


@pytest.mark.parametrize(
    ("message", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody", 200, b"body"),
        (b"HTTP/1.0 200\nA: b\n\nbody", 200, b"body"),
        (b"http/2 404 Not Found\r\n\r\n", 404, b""),
        (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 500 x\r\n\r\n", 200, b"HTTP/1.1 500 x\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nA: b", 200, b""),
    ],
)
def test_messages_are_split(message, status, body):
    response = parse_response(message)
    assert (response.status, response.body) == (status, body)


@pytest.mark.parametrize("message", [b"", b"<html>", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK"])
def test_what_is_no_message_is_none(message):
    assert parse_response(message) is None


def test_a_cut_chunk_gives_what_is_there():
    response = parse_response(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nff\r\nwor")
    assert response.content(Limits()) == (b"hellowor", True)


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
    assert content_type(value) == expected


@pytest.mark.parametrize("body", [b"<p>x", b"  <!-- c --><b>", b"\xef\xbb\xbf<!DOCTYPE html>", b"<H1 class=a>"])
def test_html_is_recognised(body):
    assert looks_like_html(body)
    assert not contradicts_html(body)


@pytest.mark.parametrize("body", [b"plain words", b"<?xml version='1.0'?>", b"<product>", b"{}"])
def test_what_is_not_html_is_not(body):
    assert not looks_like_html(body)


@pytest.mark.parametrize("body", [b'{"a": 1}', b"[1, 2]", b"%PDF-1.7", b"GIF89a", b'[{"x": [2]}]\n'])
def test_contradictions(body):
    assert contradicts_html(body)


@pytest.mark.parametrize("body", [b"{{ template }} <p>", b"[link] <p>text</p>", b"{ color } <p>{}"])
def test_brackets_alone_are_no_json(body):
    assert not contradicts_html(body)


def test_a_made_up_codec_name_cannot_reach_the_codec_registry():
    for name in ("zlib", "hex", "rot13", "idna", "unicode_escape", "utf-7", "../x"):
        assert decode(b"plain words", name) == ("plain words", 0)


def _layers(count, inner=b"<p>text</p>"):
    body = inner
    for _ in range(count):
        body = gzip.compress(body, mtime=0)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {','.join(['gzip'] * count)}\r\n\r\n"
    return parse_response(head.encode() + body)


def test_layers_of_encodings_are_few(monkeypatch):
    """Decoded bytes are counted: nothing of a body with too many layers is decoded."""
    decoded = []
    decompress = ZlibDecoder.decompress
    monkeypatch.setattr(
        ZlibDecoder, "decompress", lambda *given: (piece := decompress(*given), decoded.append(len(piece)))[0]
    )
    assert _layers(4).content(Limits()) == (b"<p>text</p>", True)
    decoded.clear()
    for count in (5, 1002):
        with pytest.raises(Damage, match="content_encoding"):
            _layers(count).content(Limits())
    assert not decoded


@pytest.mark.parametrize(("record_bytes", "fits"), [(6_000_000, True), (3_900_000, False)])
def test_all_layers_of_a_body_share_one_limit(record_bytes, fits):
    """Two layers that store 2 MB each: a limit between 2 and 4 MB holds either of them, but not both."""
    inner = gzip.compress(b"<" + random.Random(1).randbytes(2_000_000), 0, mtime=0)
    body = gzip.compress(inner, 0, mtime=0)
    response = parse_response(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\n\r\n" + body)
    if fits:
        assert len(response.content(Limits(record_bytes=record_bytes))[0]) == 2_000_001
    else:
        with pytest.raises(Damage, match="bomb"):
            response.content(Limits(record_bytes=record_bytes))
