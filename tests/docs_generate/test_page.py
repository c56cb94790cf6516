"""Generated pages are current, the links of the site work, and its reference has all public
names."""

import importlib
import re
from pathlib import Path

import pytest
import yaml

from clozeline.configuration.config import validate
from clozeline.pipeline.corrupt.config import CorruptConfig
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.corrupt.preview.words import WordCodec
from clozeline.pipeline.registries import OBJECTIVES
from docs.generate.mkdocs_hooks import _OUTSIDE, move_links, public_names, write_reference
from docs.generate.objective_cases import _CASES, EVERY_WORD, cases_of
from docs.generate.page import GROUPS, write_pages
from docs.generate.training import training_rows
from tests.test_pages import imported_modules

ROOT = Path(__file__).parents[2]
NAMES = OBJECTIVES.available()
PAGES = {
    path: (ROOT / "docs" / path).read_text(encoding="utf-8")
    for path in (
        "claims.md",
        "combinations.md",
        "filled-keys.md",
        "glossary.md",
        "objectives.md",
        "published-trainings.md",
        "words.md",
        *(f"objectives/{page}.md" for page in GROUPS),
    )
}
SECTIONS = {
    name: section
    for text in PAGES.values()
    for name, section in re.findall(r"^## (\w+)$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
}


def test_the_pages_are_current():
    assert write_pages() == PAGES, "run `make docs`"
    assert set(_CASES) <= set(NAMES), "an example of an unknown objective"


def test_the_pages_are_short():
    assert {
        path: len(text.splitlines()) for path, text in PAGES.items() if text.count("\n") > 400
    } == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_section_has_examples_features_and_options(name):
    assert name in SECTIONS, f"docs/objectives/ has no section {name}: `make objectives` writes it"

    section = SECTIONS[name]

    assert section.count("```text\n") == len(cases_of(name))
    assert re.search(r"\*Papers:\* arXiv \d{4}\.\d{5}", section)

    for feature in build_objective(name, WordCodec(EVERY_WORD).vocabulary).features:
        assert f"| `{feature.name}` |" in section
    (block,) = re.findall(r"```yaml\n(.*?)```", section, flags=re.DOTALL)
    (entry,) = validate(CorruptConfig, yaml.safe_load(block), name)

    assert entry.objective.options == OBJECTIVES.resolve(name).options
    assert {*entry.objective.type.Options.__pydantic_fields__} == {*yaml.safe_load(block)[0]} - {
        "name"
    }
    assert training_rows(name), "what trains on it"


@pytest.mark.parametrize(
    ("file", "page", "link", "expected"),
    [
        ("README.md", "start.md", "[a](docs/models.md#export)", "[a](models.md#export)"),
        ("README.md", "start.md", "[a](CONTRIBUTING.md)", "[a](contributing.md)"),
        ("README.md", "start.md", "![a](docs/pictures/flow.svg)", "![a](pictures/flow.svg)"),
        (
            "docs/README.md",
            "README.md",
            "[a](../README.md#your-own-texts)",
            "[a](start.md#your-own-texts)",
        ),
        (
            "docs/README.md",
            "README.md",
            "[a](decisions)",
            "[a](decisions/0001-keyed-randomness.md)",
        ),
        (
            "extensions/inference/README.md",
            "extensions/inference.md",
            "[the cache](../../model/layers/cache.py)",
            "the cache",
        ),
        (
            "docs/models.md",
            "models.md",
            "[a](absent.md) [b](#here) [c](https://x.org/docs/models.md)",
            None,
        ),
        ("README.md", "start.md", "```python\nx = [a](docs)\n```", None),
    ],
)
def test_a_link_of_a_checkout_becomes_one_of_the_site(file, page, link, expected):
    assert move_links(f"{link}\n", file, page) == f"{expected or link}\n"


def test_every_page_is_in_the_navigation():
    listed = re.findall(
        r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("nav:")[2]
    )
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]

    assert sorted(listed) == sorted([*pages, *_OUTSIDE.values(), "api.md"])


def names_of_the_page():
    """Return the names that docs/python.md imports from Clozeline, and those of its first table."""
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    imported = [name for block in blocks for name in imported_modules(block)]
    table = page.partition("| to | import |")[2].partition("\n\n")[0]
    return {name for name in imported if name.startswith("clozeline")}, set(
        re.findall(r"\| `(\w+)` \|$", table, re.MULTILINE)
    )


def test_the_reference_has_every_public_name_of_the_page():
    imported, to_import = names_of_the_page()
    reference = set(re.findall(r"^::: (\S+)$", write_reference(public_names()), re.MULTILINE))

    assert len(to_import) >= 4
    assert to_import <= {name.rpartition(".")[2] for name in imported}
    assert imported <= reference


def test_the_public_names_exist_and_have_docstrings():
    names = public_names()

    assert "clozeline.pipeline.shards.open_shards" in names

    for name in names:
        module, _, attribute = name.rpartition(".")
        assert getattr(importlib.import_module(module), attribute).__doc__, name
        assert f"\n::: {name}\n" in write_reference(names)
