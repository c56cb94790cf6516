"""The crawler against a loopback site that misbehaves in every way a small site can."""

from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

from pipeline.errors import ConfigurationError, StorageError
from tests.loopback_site import HTML, Site, page
from tools.crawl.archive import Archive
from tools.crawl.fetch import Exchange, FetchFailedError, fetch
from tools.crawl.walk import Crawl, CrawlSettings
from tools.crawl_site import crawl_to_file, main


def settings(site: Site, **changes: Any) -> CrawlSettings:
    return CrawlSettings(**({"start": (site.url,), "delay": 0.0, "timeout": 5.0} | changes))


def records(path: Path) -> list[tuple[str, str]]:
    with path.open("rb") as file:
        return [(r.rec_type, r.rec_headers.get_header("WARC-Target-URI") or "") for r in ArchiveIterator(file)]


def responses(path: Path, site: Site) -> list[str]:
    return ["/" + url.removeprefix(site.url) for kind, url in records(path) if kind == "response"]


def quiet(_: str) -> None:
    pass


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


def test_records_are_sound(tmp_path: Path) -> None:
    """WARC 1.1, a gzip member a record, digests right, request and response tied together, the body as sent."""
    site = Site({"/": page("/b", text="Grüße"), "/b": page()})
    output = tmp_path / "site.warc.gz"
    with site.running():
        crawl_to_file(settings(site), output, quiet)
    with output.open("rb") as file:
        found = [(record.rec_headers, record.raw_stream.read()) for record in ArchiveIterator(file)]
    assert all(headers.protocol == "WARC/1.1" for headers, _ in found)
    assert [headers.get_header("WARC-Type") for headers, _ in found] == ["warcinfo"] + ["request", "response"] * 3
    request, response = found[3][0], found[4][0]
    assert request.get_header("WARC-Concurrent-To") == response.get_header("WARC-Record-ID")
    assert request.get_header("WARC-Date") == response.get_header("WARC-Date")
    assert response.get_header("WARC-IP-Address") == "127.0.0.1"
    assert found[4][1] == site.pages["/"][2]  # type: ignore[index]
    assert output.read_bytes().count(b"\x1f\x8b\x08") >= len(found)
    assert Checker(_CheckArguments([str(output)])).process_all() == 0


class _CheckArguments:
    verbose = False

    def __init__(self, inputs: list[str]) -> None:
        self.inputs = inputs


class _KilledError(Exception):
    pass


def _kill_after(requests: int) -> Callable[..., Exchange]:
    left = iter(range(requests))

    def fetch_or_die(url: str, **options: Any) -> Exchange:
        if next(left, None) is None:
            raise _KilledError
        return fetch(url, **options)

    return fetch_or_die


@pytest.mark.parametrize("torn", [0, 1, 700])
@pytest.mark.parametrize("requests", [1, 2, 5])
def test_killed_and_continued(tmp_path: Path, requests: int, torn: int) -> None:
    """Killed after any request, with or without a torn tail: no page is lost, none is asked twice but the torn one."""
    site = Site({"/": page(*(f"/{i}" for i in range(6)))} | {f"/{i}": page(f"/{i + 6}") for i in range(12)})
    straight, output = tmp_path / "straight.warc.gz", tmp_path / "continued.warc.gz"
    with site.running():
        whole = crawl_to_file(settings(site), straight, quiet)
        site.asked.clear()
        with Archive(output, settings(site).recorded()) as archive, pytest.raises(_KilledError):
            Crawl(settings(site), archive, fetch=_kill_after(requests)).run()
        assert not output.exists()
        partial = archive.partial
        with partial.open("r+b") as file:
            file.truncate(partial.stat().st_size - torn)
        continued = crawl_to_file(settings(site), output, quiet)
    assert whole is not None
    assert continued is not None
    assert (continued.pages, continued.bytes, continued.reasons) == (whole.pages, whole.bytes, whole.reasons)
    assert responses(output, site) == responses(straight, site)
    assert len(site.asked) - len(set(site.asked)) <= min(torn, 2)
    assert Checker(_CheckArguments([str(output)])).process_all() == 0
    assert not partial.exists()


def test_a_request_without_its_response_is_cut(tmp_path: Path) -> None:
    site = Site({"/": page()})
    output = tmp_path / "x.warc.gz"
    with site.running():
        crawl_to_file(settings(site), output, quiet)
        data = output.read_bytes()
        starts = [place for place in range(len(data)) if data.startswith(b"\x1f\x8b\x08", place)]
        (tmp_path / "x.warc.gz.partial").write_bytes(data[: starts[-1]])
        output.unlink()
        crawl_to_file(settings(site), output, quiet)
    kinds = [kind for kind, _ in records(output)]
    assert kinds == ["warcinfo", "request", "response", "request", "response"]


def test_finished_file_is_left_alone(tmp_path: Path) -> None:
    site = Site({"/": page()})
    output = tmp_path / "x.warc.gz"
    with site.running():
        crawl_to_file(settings(site), output, quiet)
        before = output.read_bytes()
        site.asked.clear()
        assert crawl_to_file(settings(site), output, quiet) is None
        assert site.asked == []
        assert output.read_bytes() == before
        with pytest.raises(ConfigurationError, match="other settings"):
            crawl_to_file(settings(site, pages=3), output, quiet)


def test_other_settings_do_not_mix(tmp_path: Path) -> None:
    site = Site({})
    with Archive(tmp_path / "x.warc.gz", settings(site, pages=5).recorded()):
        pass
    with pytest.raises(ConfigurationError, match="begun with pages = 5, now 6"):
        Archive(tmp_path / "x.warc.gz", settings(site, pages=6).recorded())


def test_two_crawls_do_not_share_a_file(tmp_path: Path) -> None:
    wanted = settings(Site({})).recorded()
    with Archive(tmp_path / "x.warc.gz", wanted), pytest.raises(ConfigurationError, match="another crawl"):
        Archive(tmp_path / "x.warc.gz", wanted)


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


def test_slow_page_is_cut_off(tmp_path: Path) -> None:
    """A page that never ends is counted as a timeout, although every byte comes in time."""
    released = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        with contextlib.suppress(OSError):
            while not released.wait(0.02):
                handler.wfile.write(b"x")

    site = Site({"/": page("/slow", "/b"), "/slow": drip, "/b": page()})
    with site.running():
        tally = crawl_to_file(settings(site, timeout=0.3), tmp_path / "x.warc.gz", quiet)
        released.set()
    assert tally is not None
    assert tally.pages == 2
    assert tally.reasons == {"timeout": 1}


def test_long_short_and_odd_bodies(tmp_path: Path) -> None:
    """Too long is cut and marked; shorter than announced is no page; chunks are joined; gzip is read for links."""

    def short(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 99\r\n\r\nabc")

    def chunked(handler: BaseHTTPRequestHandler) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
        handler.wfile.write(head + b"3\r\n<p>\r\n2\r\nhi\r\n0\r\n\r\n")

    def noise(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"\x00\x01\x02 not http\r\n\r\n")

    packed = HTML | {"Content-Encoding": "gzip"}
    site = Site(
        {
            "/": page("/long", "/short", "/chunked", "/noise", "/packed"),
            "/long": (200, HTML, b"x" * 5000),
            "/short": short,
            "/chunked": chunked,
            "/noise": noise,
            "/packed": (200, packed, gzip.compress(b"<a href=/inside>in</a>")),
            "/inside": page(),
        }
    )
    output = tmp_path / "x.warc.gz"
    with site.running():
        tally = crawl_to_file(settings(site, page_bytes=1000), output, quiet)
    assert tally is not None
    assert tally.reasons == {"cut at the size limit": 1, "protocol": 2}
    with output.open("rb") as file:
        kept = {
            record.rec_headers.get_header("WARC-Target-URI").removeprefix(site.url): (
                record.rec_headers.get_header("WARC-Truncated"),
                record.http_headers.get_header("Transfer-Encoding"),
                record.raw_stream.read(),
            )
            for record in ArchiveIterator(file)
            if record.rec_type == "response"
        }
    assert kept["long"] == ("length", None, b"x" * 1000)
    assert kept["chunked"] == (None, None, b"<p>hi")
    assert "inside" in kept


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
    with site.running(), Archive(tmp_path / "x.warc.gz", settings(site).recorded()) as archive:
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
        with Archive(output, settings(site).recorded()) as archive, pytest.raises(StorageError, match="10 in a row"):
            Crawl(settings(site), archive, fetch=dies_after_three).run()
        tally = crawl_to_file(settings(site), output, quiet)
    assert tally is not None
    assert tally.pages == 31
    assert not tally.reasons


@pytest.mark.parametrize(("status", "allowed"), [(200, False), (404, True), (403, True), (500, False), (503, False)])
def test_missing_robots(tmp_path: Path, status: int, allowed: bool) -> None:
    site = Site({"/robots.txt": (status, {}, b"User-agent: *\nDisallow: /"), "/": page()})
    site.pages["/robots.txt"] = (status, {"Content-Type": "text/plain"}, b"User-agent: *\nDisallow: /")
    with site.running(), Archive(tmp_path / "x.warc.gz", settings(site).recorded()) as archive:
        tally = Crawl(settings(site), archive, sleep=lambda _: None).run()
    assert tally.pages == int(allowed)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["http://127.0.0.1:9/", "--output", "x.warc.gz"], 74, "no answer from the site"),
        (["ftp://x.org", "--output", "x.warc.gz"], 64, "expected an http or https address"),
        (["http://127.0.0.1/", "--output", "x.warc"], 64, "ending in .warc.gz"),
        (["http://127.0.0.1/"], 64, "--output"),
        (["http://127.0.0.1/", "--output", "x.warc.gz", "--pages", "0"], 64, "--pages: expected"),
        (["http://127.0.0.1/", "--output", "x.warc.gz", "--delay", "-1"], 64, "--delay: expected"),
    ],
)
def test_wrong_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str],
    code: int, message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    assert message in capsys.readouterr().err


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = Site({"/": page("/b"), "/b": page()})
    output = tmp_path / "folder" / "x.warc.gz"
    with site.running():
        assert main([site.url, "--output", str(output), "--delay", "0"]) == 0
        assert main([site.url, "--output", str(output), "--delay", "0"]) == 0
    assert "2 pages" in capsys.readouterr().out
