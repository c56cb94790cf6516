import re
import sys
from pathlib import Path

import pytest
import yaml

import clozeline.pipeline.corrupt.objectives
from clozeline import registry
from clozeline.configuration.config import validate
from clozeline.pipeline.corrupt.config import CorruptConfig
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.corrupt.preview.words import Words
from docs.generate.objective_cases import EVERY_WORD, cases_of
from docs.generate.page import as_yaml, gallery

PAGE = Path(__file__).parents[2] / "docs" / "objectives.md"


def sections():
    parts = re.split(r"^## (\w+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", registry.names("clozeline.pipeline.corrupt.objectives"))
def test_a_section_has_examples_features_and_options(name):
    assert name in sections(), f"docs/objectives.md has no section {name}: `make objectives` writes it"
    section = sections()[name]
    assert section.count("```text\n") == len(cases_of(name))
    assert re.search(r"\*Papers:\* arXiv \d{4}\.\d{5}", section)
    for feature in build_objective(name, Words(EVERY_WORD).vocabulary).features:
        assert f"| `{feature.name}` |" in section
    (block,) = re.findall(r"```yaml\n(.*?)```", section, flags=re.DOTALL)
    (entry,) = validate(CorruptConfig, yaml.safe_load(block), name)
    assert entry.objective.options == registry.choose("clozeline.pipeline.corrupt.objectives", name).options
    assert {*entry.objective.type.Options.__pydantic_fields__} == {*yaml.safe_load(block)[0]} - {"name"}


NEW_FILE = '''
from typing import ClassVar


from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.objectives._masked_rows import MaskedRow, RoleOptions


class SecretWord(MaskedRow):
    """An objective without a reader (arXiv 2999.12345).

    Example:
        x       a b
    """

    name: ClassVar[str] = "secret_word"
    VERSION: ClassVar[int] = 1

    @config_class
    class Options(RoleOptions):
        """Its parameters."""
'''


def test_a_new_file_appears_by_itself(tmp_path, monkeypatch):
    (tmp_path / "secret_word.py").write_text(NEW_FILE, encoding="utf-8")
    monkeypatch.setattr(
        clozeline.pipeline.corrupt.objectives,
        "__path__",
        [*clozeline.pipeline.corrupt.objectives.__path__, str(tmp_path)],
    )
    page = gallery()
    monkeypatch.delitem(sys.modules, "clozeline.pipeline.corrupt.objectives.secret_word")
    assert "| [secret_word](#secret_word) | encoder | masked_lm | packed (sep) |" in page
    section = page.split("## secret_word\n")[1].split("\n## ")[0]
    assert "An objective without a reader" in section
    assert "[MASK]" in section.split("```text")[1]
    assert "- name: secret_word" in section


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (0.15, "0.15"),
        ("sep", "sep"),
        ("", '""'),
        ("a: b", '"a: b"'),
        ("[MASK]", '"[MASK]"'),
        (["a", 1, [2]], "[a, 1, [2]]"),
        ({"uniform": [0.0, 1.0]}, "{uniform: [0.0, 1.0]}"),
    ],
)
def test_values_are_yaml_that_is_read_as_the_same(value, text):
    assert as_yaml(value) == text
    assert yaml.safe_load(text) == value


def test_of_an_algorithm_only_what_differs_is_written():
    chosen = registry.choose("clozeline.pipeline.corrupt.objectives", {"name": "masked_lm", "max_length": 64})
    assert as_yaml(chosen) == "{name: masked_lm, max_length: 64}"


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == gallery(), "run `make docs`"
