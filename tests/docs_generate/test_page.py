"""docs/objectives.md: it is what the generator writes, and its YAML is read as the options that it shows."""

import re
from pathlib import Path

import pytest
import yaml

from clozeline import registry
from clozeline.configuration.config import validate
from clozeline.pipeline.corrupt.config import CorruptConfig
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.corrupt.preview.words import Words
from docs.generate.objective_cases import _CASES, EVERY_WORD, cases_of
from docs.generate.page import gallery
from docs.generate.training import training_rows

PAGE = Path(__file__).parents[2] / "docs" / "objectives.md"
NAMES = registry.names("clozeline.pipeline.corrupt.objectives")
SECTIONS = re.split(r"^## (\w+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == gallery(), "run `make docs`"
    assert set(_CASES) <= set(NAMES), "an example of an objective that is gone"


@pytest.mark.parametrize("name", NAMES)
def test_a_section_has_examples_features_and_options(name):
    assert name in SECTIONS[1::2], f"docs/objectives.md has no section {name}: `make objectives` writes it"
    section = SECTIONS[SECTIONS.index(name) + 1]
    assert section.count("```text\n") == len(cases_of(name))
    assert re.search(r"\*Papers:\* arXiv \d{4}\.\d{5}", section)
    for feature in build_objective(name, Words(EVERY_WORD).vocabulary).features:
        assert f"| `{feature.name}` |" in section
    (block,) = re.findall(r"```yaml\n(.*?)```", section, flags=re.DOTALL)
    (entry,) = validate(CorruptConfig, yaml.safe_load(block), name)
    assert entry.objective.options == registry.choose("clozeline.pipeline.corrupt.objectives", name).options
    assert {*entry.objective.type.Options.__pydantic_fields__} == {*yaml.safe_load(block)[0]} - {"name"}
    assert training_rows(name), "what trains on it"
