"""The page of objectives: as it would be made now, with every objective, and with options that are read as written."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import pipeline.objectives
from pipeline import registry
from pipeline.config import validate
from pipeline.corrupt.stage import CorruptConfig
from pipeline.objectives import build_objective
from pipeline.preview.shown_example import lines_of
from pipeline.preview.words import Text, Words, sample_rows_of
from tools.gallery.cases import EVERY_WORD, cases_of, texts_for
from tools.gallery.page import gallery
from tools.make_gallery import main

PAGE = Path(__file__).parents[2] / "docs" / "objectives.md"
NAMES = registry.names("pipeline.objectives")
WORDS = Words(EVERY_WORD)


def sections() -> dict[str, str]:
    parts = re.split(r"^## (\w+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == gallery(), "run `python tools/make_gallery.py`"


def test_the_command_writes_it(tmp_path: Path) -> None:
    assert main(["--output", str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_bytes() == PAGE.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_a_section_has_examples_features_and_options(name: str) -> None:
    section = sections()[name]
    assert section.count("```text\n") == len(cases_of(name))
    assert re.search(r"\*Papers:\* arXiv \d{4}\.\d{5}", section)
    for feature in build_objective(name, WORDS.vocabulary).features:
        assert f"| `{feature.name}` |" in section
    (block,) = re.findall(r"```yaml\n(.*?)```", section, flags=re.DOTALL)
    (entry,) = validate(CorruptConfig, yaml.safe_load(block), name)
    assert entry.objective.options == registry.choose("pipeline.objectives", name).options
    assert {*entry.objective.type.Options.__pydantic_fields__} == {*yaml.safe_load(block)[0]} - {"name"}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown_can_be_undone(name: str) -> None:
    for case in cases_of(name):
        objective = build_objective({"name": name, **case.options}, WORDS.vocabulary)
        sample = sample_rows_of(objective, WORDS, case.texts or texts_for(objective)).take(np.array([0]))
        examples, _ = objective.corrupt(sample, np.array([case.variant], np.uint16), seed=1)
        example = examples.row(0)
        assert objective.uncorrupt(example).tolist() == objective.original(sample.row(0), example).tolist()


def test_labels_stand_below_their_places() -> None:
    words = Words(["It is raining ."])
    options = {"grouping": "document", "mask_rate": 0.25, "mask_share": 1.0, "random_share": 0.0}
    objective = build_objective({"name": "masked_lm", **options}, words.vocabulary)
    sample = sample_rows_of(objective, words, (Text(("It is raining .",)),))
    found = set()
    for variant in range(60):
        examples, _ = objective.corrupt(sample, np.array([variant], np.uint16), seed=1)
        text, row, labels = lines_of(objective, words, sample.row(0), examples.row(0))
        assert text == "text    It is raining ."
        found.add((row, labels))
    assert found == {
        ("input   [CLS] [MASK] is raining .  [SEP]", "labels  __    It     __ __      __ __"),
        ("input   [CLS] It [MASK] raining .  [SEP]", "labels  __    __ is     __      __ __"),
        ("input   [CLS] It is [MASK]  .  [SEP]", "labels  __    __ __ raining __ __"),
        ("input   [CLS] It is raining [MASK] [SEP]", "labels  __    __ __ __      .      __"),
    }


NEW_FILE = '''
from typing import ClassVar

from pydantic.dataclasses import dataclass

from pipeline.config import STRICT
from pipeline.objectives._masked_rows import MaskedRow, RoleOptions


class SecretWord(MaskedRow):
    """An objective that nobody has heard of (arXiv 2999.12345).

    Example:
        x       a b
    """

    name: ClassVar[str] = "secret_word"
    VERSION: ClassVar[int] = 1

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options(RoleOptions):
        """Its parameters."""
'''


def test_a_new_file_appears_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret_word.py").write_text(NEW_FILE, encoding="utf-8")
    monkeypatch.setattr(pipeline.objectives, "__path__", [*pipeline.objectives.__path__, str(tmp_path)])
    page = gallery()
    monkeypatch.delitem(sys.modules, "pipeline.objectives.secret_word")
    assert "| [secret_word](#secret_word) | encoder | masked_lm | packed (sep) |" in page
    section = page.split("## secret_word\n")[1].split("\n## ")[0]
    assert "An objective that nobody has heard of" in section
    assert "[MASK]" in section.split("```text")[1]
    assert "- name: secret_word" in section
