from __future__ import annotations

import contextlib
import gzip
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator

from clozeline.tools.website.crawl_site import crawl_to_file
from tests.loopback_site import HTML, Site, page
from tests.tools.website.crawl.crawls import quiet, settings


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
    """Too long is cut and marked; shorter than announced is refused; chunks are joined; gzip is read for links."""

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
