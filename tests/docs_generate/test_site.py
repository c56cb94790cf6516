"""The documentation as a site: it is built without a warning, and each of its links leads to a
page and a heading."""

import os
import posixpath
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docs.generate.mkdocs_hooks import public_names

ROOT = Path(__file__).parents[2]
INSTALL = "make the site first: `make site` installs the extra `site`"


class Links(HTMLParser):
    """Targets of links and pictures, and the anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.targets = []
        self.anchors = set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        self.targets += [found[key] for key in ("href", "src") if found.get(key)]


def broken_links(pages):
    """Return each link that leads to no file or no anchor; the site is a dictionary of its pages.

    Other files of the site are pages without anchors.
    """
    broken = []

    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or parts.path.startswith("/"):
                continue
            path = unquote(parts.path) or posixpath.basename(page)
            linked = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
            if path.endswith("."):  # a folder, by its relative path
                linked = posixpath.normpath(posixpath.join(linked, "index.html"))
            anchor = unquote(parts.fragment)
            has_anchor = linked in pages and (not anchor or anchor in pages[linked].anchors)
            if not has_anchor:
                broken.append(f"{page}: {target}")

    return broken


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The built site: file → its links; files that are not HTML have none."""
    for module in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(module, reason=INSTALL)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stdout + done.stderr

    return {
        path.relative_to(folder).as_posix(): Links(
            path.read_text(encoding="utf-8") if path.suffix == ".html" else ""
        )
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_links_of_the_site_lead_to_pages_and_headings(pages):
    assert len([page for page in pages if page.endswith(".html")]) > 50
    assert broken_links(pages) == []


def test_the_reference_shows_every_public_name(pages):
    assert set(public_names()) <= pages["api.html"].anchors


def test_a_broken_link_is_found():
    first = Links('<a href="b.html#one"> <a href="b.html#two"> <a href="c.html"> <img src="d.png">')
    second = Links('<h2 id="one"> <a href="#one"> <a href="https://example.org/x">')

    assert broken_links({"a.html": first, "b.html": second, "d.png": Links("")}) == [
        "a.html: b.html#two",
        "a.html: c.html",
    ]
