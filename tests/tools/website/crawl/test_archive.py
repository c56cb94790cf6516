from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

from clozeline.errors import ConfigurationError
from clozeline.tools.website.crawl.archive import Archive
from clozeline.tools.website.crawl.fetch import Exchange, fetch
from clozeline.tools.website.crawl.walk import Crawl
from clozeline.tools.website.crawl_site import crawl_to_file
from tests.loopback_site import Site, page
from tests.tools.website.crawl.crawls import quiet, records, responses, settings


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
    assert Checker(CheckArguments([str(output)])).process_all() == 0


class CheckArguments:
    verbose = False

    def __init__(self, inputs: list[str]) -> None:
        self.inputs = inputs


class KilledError(Exception):
    pass


def kill_after(requests: int) -> Callable[..., Exchange]:
    left = iter(range(requests))

    def fetch_or_die(url: str, **options: Any) -> Exchange:
        if next(left, None) is None:
            raise KilledError
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
        with Archive(output, settings(site).identity()) as archive, pytest.raises(KilledError):
            Crawl(settings(site), archive, fetch=kill_after(requests)).run()
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
    assert Checker(CheckArguments([str(output)])).process_all() == 0
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


def test_other_settings_do_not_mix(tmp_path: Path) -> None:
    site = Site({})
    with Archive(tmp_path / "x.warc.gz", settings(site, pages=5).identity()):
        pass
    with pytest.raises(ConfigurationError, match="started with pages = 5, now 6"):
        Archive(tmp_path / "x.warc.gz", settings(site, pages=6).identity())


def test_two_crawls_do_not_share_a_file(tmp_path: Path) -> None:
    wanted = settings(Site({})).identity()
    with Archive(tmp_path / "x.warc.gz", wanted), pytest.raises(ConfigurationError, match="another crawl"):
        Archive(tmp_path / "x.warc.gz", wanted)
