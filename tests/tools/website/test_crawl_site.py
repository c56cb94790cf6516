"""The crawler against a loopback site that misbehaves in every way a small site can."""

from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.tools.website.crawl_site import crawl_to_file, main
from tests.loopback_site import Site, page
from tests.tools.website.crawl.crawls import quiet, settings


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
