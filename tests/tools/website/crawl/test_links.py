from __future__ import annotations

import doctest

import pytest

import clozeline.tools.website.crawl.links
from clozeline.tools.website.crawl.links import find_links, normalize_url


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("HTTP://Example.ORG:80", "http://example.org/"),
        ("https://example.org:443/a/../b?x=1#y", "https://example.org/b?x=1"),
        ("http://example.org:8080/a b/ü", "http://example.org:8080/a%20b/%C3%BC"),
        ("http://example.org/%7Euser", "http://example.org/%7Euser"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://me:secret@example.org/", "http://example.org/"),
        ("http://[::1]:80/x", "http://[::1]/x"),
        ("ftp://example.org/", None),
        ("javascript:alert(1)", None),
        ("http://", None),
        ("http://host:port/", None),
        ("http://[bad/", None),
    ],
)
def test_normalise_url(url: str, normal: str | None) -> None:
    assert normalize_url(url) == normal
    if normal:
        assert normalize_url(normal) == normal


def test_find_links() -> None:
    base = "http://x.org/dir/page"
    assert find_links('<base href="/other/"><A HREF="a">A</A><area href=b>', base) == [
        "http://x.org/other/a",
        "http://x.org/other/b",
    ]
    assert find_links('<a rel="nofollow" href=a>a</a><a href=b>b</a>', base) == ["http://x.org/dir/b"]
    assert find_links('<meta name="robots" content="noindex, nofollow"><a href=a>a</a>', base) == []
    assert find_links("<a href><a href=''><a>", base) == [base]


def test_example_of_the_docstring() -> None:
    assert doctest.testmod(clozeline.tools.website.crawl.links).failed == 0
