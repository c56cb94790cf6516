"""The site: every page is in its navigation, links lead to pages, and the reference has the public names."""

import importlib
import re
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
