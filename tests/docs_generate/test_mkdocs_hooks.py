"""The site: every page is in its navigation, links lead to pages, and the reference has the public names."""

import html
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generate.mkdocs_hooks import move_links, public_names, write_reference

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("file", "page", "link", "expected"),
    [
        ("README.md", "start.md", "[a](docs/models.md#export)", "[a](models.md#export)"),
        ("README.md", "start.md", "[a](CONTRIBUTING.md)", "[a](contributing.md)"),
        ("README.md", "start.md", "![a](docs/pictures/flow.svg)", "![a](pictures/flow.svg)"),
        ("docs/README.md", "README.md", "[a](../README.md#your-own-texts)", "[a](start.md#your-own-texts)"),
        ("docs/README.md", "README.md", "[a](decisions)", "[a](decisions/0001-keyed-randomness.md)"),
        ("docs/decisions/0006-x.md", "decisions/0006-x.md", "[a](../formats.md)", "[a](../formats.md)"),
        ("docs/generation.md", "generation.md", "[the cache](../model/layers/cache.py)", "the cache"),
        ("docs/models.md", "models.md", "[a](absent.md) [b](#here) [c](https://x.org/docs/models.md)", None),
        ("README.md", "start.md", "```python\nx = [a](docs)\n```", None),
    ],
)
def test_a_link_of_a_checkout_becomes_one_of_the_site(file, page, link, expected):
    assert move_links(f"{link}\n", file, page) == f"{expected or link}\n"


def test_every_page_is_in_the_navigation():
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("nav:")[2])
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted([*pages, "start.md", "contributing.md", "changelog.md", "api.md"])


def test_the_public_names_exist_and_have_docstrings():
    names = public_names()
    assert "clozeline.pipeline.shards.open_shards" in names
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert getattr(importlib.import_module(module), attribute).__doc__, name
        assert f"\n::: {name}\n" in write_reference(names)


def test_the_site_builds_without_a_warning(tmp_path):
    """Strict: a broken link or anchor, a page outside the navigation or a name without code ends the build."""
    pytest.importorskip("mkdocstrings", reason="the extra `site` is not installed")
    pytest.importorskip("material", reason="the extra `site` is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = html.unescape(re.sub(r"<[^>]+>", "", (tmp_path / "api.html").read_text(encoding="utf-8")))
    for name in public_names():
        assert name in page
    index = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert any("span_corruption" in entry["text"] for entry in index["docs"] if "objectives" in entry["location"])
    for path in tmp_path.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|link|img)[^>]* (?:src|href)="?(https?:[^" >]*)', path.read_text(encoding="utf-8")
        )
        assert not loaded, f"{path.name} loads {loaded}"
