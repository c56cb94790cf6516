from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clozeline.errors import StorageError
from clozeline.tools.website.crawl.archive import Archive
from clozeline.tools.website.crawl.fetch import Exchange, FetchFailedError, fetch
from clozeline.tools.website.crawl.walk import Crawl
from clozeline.tools.website.crawl_site import crawl_to_file
from tests.loopback_site import HTML, Site, page
from tests.tools.website.crawl.crawls import quiet, records, responses, settings


def test_a_site_with_everything(tmp_path: Path) -> None:
    """Robots, duplicates, other sites, errors, redirects, other types: each address is kept or counted."""
    site = Site(
        {
            "/robots.txt": (200, {"Content-Type": "text/plain"}, b"User-agent: *\nDisallow: /private\n"),
            "/": page("/a", "/a#part", "a", "/private/x", "/gone", "/moved", "/loop1", "/image", "/broken", "mailto:x"),
            "/a": page("/", "http://other.example/page", "//other.example/again", "?q=1"),
            "/?q=1": page(),
            "/a?q=1": page(),
            "/moved": (301, {"Location": "/target"}, b""),
            "/target": page(),
            "/loop1": (302, {"Location": "/loop2"}, b""),
            "/loop2": (302, {"Location": "/loop1"}, b""),
            "/image": (200, {"Content-Type": "image/png"}, b"\x89PNG"),
            "/broken": (200, HTML, b"<html><a href=/deep<b><<p>un</closed><a href='/deep2'>x"),
            "/deep2": page(),
        }
    )
    output = tmp_path / "site.warc.gz"
    with site.running():
        tally = crawl_to_file(settings(site), output, quiet)
    assert tally is not None
    assert sorted(set(site.asked)) == sorted(site.asked), "an address was asked twice"
    assert "/private/x" not in site.asked
    assert "/never" not in site.asked, "links of an error page are not followed"
    assert tally.pages == 6
    reasons = {key: value for key, value in tally.reasons.items() if key != "status 404"}
    assert reasons == {"forbidden by robots.txt": 1, "other site": 2, "redirect": 3, "type image/png": 1}
    kept = responses(output, site)
    assert {"/robots.txt", "/gone", "/moved", "/loop1", "/loop2", "/deep2"} <= set(kept)
    assert "/image" not in kept
    assert ("metadata", site.url + "image") in records(output)


def test_page_limit_and_request_limit(tmp_path: Path) -> None:
    site = Site({"/": page(*(f"/{i}" for i in range(50)))} | {f"/{i}": page() for i in range(20)})
    with site.running():
        tally = crawl_to_file(settings(site, pages=7), tmp_path / "a.warc.gz", quiet)
        assert tally is not None
        assert tally.pages == 7
        tally = crawl_to_file(settings(site, requests=30), tmp_path / "b.warc.gz", quiet)
    assert tally is not None
    assert tally.reasons == {"status 404": 9, "not asked: request limit": 21}
    assert tally.pages == 21


def test_waits_as_asked(tmp_path: Path) -> None:
    """The longest of --delay, Crawl-delay and Retry-After, before every request but the first."""
    site = Site(
        {
            "/robots.txt": (200, HTML, b"User-agent: *\nCrawl-delay: 2.5"),
            "/": page("/busy", "/c"),
            "/busy": (503, {"Retry-After": "4"}, b""),
            "/c": page(),
        }
    )
    waits: list[float] = []
    with site.running(), Archive(tmp_path / "x.warc.gz", settings(site).identity()) as archive:
        Crawl(settings(site, delay=1.0), archive, sleep=waits.append).run()
    assert waits == [2.5, 2.5, 4.0]


def test_silent_server_ends_the_crawl_and_is_asked_again(tmp_path: Path) -> None:
    site = Site({"/": page(*(f"/{i}" for i in range(30)))} | {f"/{i}": page() for i in range(30)})
    output = tmp_path / "x.warc.gz"

    def dies_after_three(url: str, **options: Any) -> Exchange:
        if len(site.asked) >= 3:
            raise FetchFailedError("connection", f"{url}: refused")
        return fetch(url, **options)

    with site.running():
        with Archive(output, settings(site).identity()) as archive, pytest.raises(StorageError, match="10 in a row"):
            Crawl(settings(site), archive, fetch=dies_after_three).run()
        tally = crawl_to_file(settings(site), output, quiet)
    assert tally is not None
    assert tally.pages == 31
    assert not tally.reasons


@pytest.mark.parametrize(("status", "allowed"), [(200, False), (404, True), (403, True), (500, False), (503, False)])
def test_missing_robots(tmp_path: Path, status: int, allowed: bool) -> None:
    site = Site({"/robots.txt": (status, {}, b"User-agent: *\nDisallow: /"), "/": page()})
    site.pages["/robots.txt"] = (status, {"Content-Type": "text/plain"}, b"User-agent: *\nDisallow: /")
    with site.running(), Archive(tmp_path / "x.warc.gz", settings(site).identity()) as archive:
        tally = Crawl(settings(site), archive, sleep=lambda _: None).run()
    assert tally.pages == int(allowed)
