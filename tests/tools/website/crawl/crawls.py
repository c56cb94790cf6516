"""Crawls of a loopback site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator

from clozeline.tools.website.crawl.walk import CrawlSettings
from tests.loopback_site import Site


def settings(site: Site, **changes: Any) -> CrawlSettings:
    """Settings that crawl a site without waiting."""
    return CrawlSettings(**({"start": (site.url,), "delay": 0.0, "timeout": 5.0} | changes))


def records(path: Path) -> list[tuple[str, str]]:
    """Kind and address of each record."""
    with path.open("rb") as file:
        return [(r.rec_type, r.rec_headers.get_header("WARC-Target-URI") or "") for r in ArchiveIterator(file)]


def responses(path: Path, site: Site) -> list[str]:
    """Paths of the pages that are kept."""
    return ["/" + url.removeprefix(site.url) for kind, url in records(path) if kind == "response"]


def quiet(_: str) -> None:
    """Report nothing."""
