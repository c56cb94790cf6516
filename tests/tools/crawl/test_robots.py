from __future__ import annotations

import doctest

import pytest

import tools.crawl.robots
from tools.crawl.robots import Robots


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


def test_example_of_the_docstring() -> None:
    assert doctest.testmod(tools.crawl.robots).failed == 0
