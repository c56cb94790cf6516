from __future__ import annotations

import doctest

import pytest

import clozeline.tools.website.crawl.robots
from clozeline.tools.website.crawl.robots import Robots


@pytest.mark.parametrize(
    ("agent", "path", "allowed"),
    [
        ("*", "/x", True),
        ("*", "/private/x", False),
        ("*", "/private/open", True),
        ("*", "/a.pdf", False),
        ("*", "/a.pdf?x", True),
        ("*", "/%C3%A9t%C3%A9", False),
        ("nosy/2.0", "/x", False),
        ("friend/1", "/private/x", True),
    ],
)
def test_robots_rules(agent: str, path: str, allowed: bool) -> None:
    text = """\ufeff# comment
    User-agent: nosy
    User-agent: other
    Disallow: / # all

    User-agent: friend
    Disallow:

    User-agent: *
    Disallow: /private/
    Allow: /private/open
    Disallow: *.pdf$
    Disallow: /été
    Unknown: x
    no colon
    """
    assert Robots.parse(text, agent).allows("http://x.org" + path) is allowed


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        pytest.param("User-agent: nosy\nSitemap: x\nX: y\nUser-agent: b\nDisallow: /", "/a", False, id="unknown line"),
        pytest.param("User-agent: nos\nAllow: /\nUser-agent: *\nDisallow: /", "/a", False, id="part of the name"),
        pytest.param("User-agent: NOSY\nAllow: /\nUser-agent: *\nDisallow: /", "/a", True, id="name in capitals"),
        pytest.param("User-agent: *\nAllow: /index.html\nDisallow: /", "/", False, id="the folder of an index"),
        pytest.param("User-agent: *\nAllow: /index.html\nDisallow: /", "/index.html", True, id="an index"),
        pytest.param("User-agent: *\nAllow: /$\nDisallow: /", "/", True, id="only the first page"),
        pytest.param("\ufeffUser-agent: *\nDisallow: /", "/a", False, id="byte order mark"),
        pytest.param("User-agent: *\nDisallow: /a%2fb", "/a%2Fb", False, id="case of an escape"),
    ],
)
def test_as_strict_as_the_rfc(text: str, path: str, allowed: bool) -> None:
    assert Robots.parse(text, "nosy/1.0").allows("http://x.org" + path) is allowed


def test_a_site_that_cannot_be_read_is_forbidden() -> None:
    assert not Robots.forbid_everything().allows("http://x.org/")


def test_delay() -> None:
    assert Robots.parse("User-agent: *\nCrawl-delay: 2.5", "nosy").delay == 2.5
    assert Robots.parse("User-agent: *\nCrawl-delay: soon", "nosy").delay == 0.0


def test_example_of_the_docstring() -> None:
    assert doctest.testmod(clozeline.tools.website.crawl.robots).failed == 0
