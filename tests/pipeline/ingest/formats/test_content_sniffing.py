from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.ingest.formats.http_message import explain_no_page


def looks_like_html(body: bytes) -> bool:
    """Of a body without a declared type."""
    return explain_no_page("", body) in ("", "mime_contradicted")


def contradicts_html(body: bytes) -> bool:
    """Of a body that is declared as HTML."""
    return explain_no_page("text/html", body) == "mime_contradicted"


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
        (b"", False, False),
        (b"%PDF-1.7\n", False, True),
        (b"\x89PNG\r\n\x1a\n", False, True),
        (gzip.compress(b"<html>", mtime=0), False, True),
        (b'{"a": 1}\n', False, True),
        (b' [ {"a": [1]} ]', False, True),
        (b"{a b", False, False),
        (b"[1, 2", False, False),
        (b"[note] A page about arrays]", False, False),
    ],
)
def test_by_their_first_bytes(body: bytes, html: bool, contradicts: bool) -> None:
    assert (looks_like_html(body), contradicts_html(body)) == (html, contradicts)


@given(st.binary(max_size=300))
def test_nothing_is_both(body: bytes) -> None:
    assert not (looks_like_html(body) and contradicts_html(body))


def test_only_the_beginning_is_looked_at() -> None:
    assert not looks_like_html(b" " * 1024 + b"<html>")
    assert looks_like_html(b" " * 1000 + b"<html>")
