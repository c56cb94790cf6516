"""Files of a new project: valid, complete and in step with the recipes that come with Clozeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.stage_order import check_recipe
from clozeline.pipeline.recipe import load_recipe
from clozeline.tools.start.project.templates import (
    ANY,
    MODELS,
    absolute_input,
    check_language,
    check_model,
    pipeline_yaml,
    train_yaml,
)
from clozeline.train.configuration.config import TrainConfig


@pytest.mark.parametrize("language", ["en", "de", ANY])
@pytest.mark.parametrize("model", MODELS)
def test_both_files_are_valid_and_name_each_other(tmp_path: Path, model: str, language: str) -> None:
    texts = tmp_path / "texts: 'all' \"mine\""
    texts.mkdir()
    (texts / "a.txt").write_text("x" * 10)
    folder = tmp_path / "my # project"
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(pipeline_yaml(folder, str(texts), language, model), encoding="utf-8")
    (folder / "train.yaml").write_text(train_yaml(folder, model), encoding="utf-8")
    recipe = load_recipe(folder / "pipeline.yaml")
    check_recipe(recipe)
    assert [entry.path for entry in recipe.input] == [str(texts)]
    assert recipe.clean.language.options.keep == ([] if language == ANY else [language])
    assert recipe.heldout.fraction == 0.2
    (entry,) = recipe.corrupt
    config = load_config(TrainConfig, folder / "train.yaml")
    assert str(config.data.shards).count(f"{folder}/data/corrupt/{entry.label or entry.objective.name}/train/") == 1
    assert max(map(len, (folder / "pipeline.yaml").read_text().splitlines()[8:])) <= 120


def test_a_large_corpus_holds_out_less(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 1_000_001)
    assert "{fraction: 0.05}" in pipeline_yaml(tmp_path / "p", str(tmp_path / "*.txt"), "en", "gpt")


def test_inputs_become_absolute_and_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text("{}")
    assert absolute_input("a.jsonl") == str(tmp_path / "a.jsonl")
    assert absolute_input("'*.jsonl'") == str(tmp_path / "*.jsonl")
    entry = {"path": str(tmp_path / "a.jsonl"), "text_key": "body"}
    assert absolute_input("{path: a.jsonl, text_key: body}") == entry
    assert absolute_input("[a.jsonl, https://x.example/b.txt]") == [entry["path"], "https://x.example/b.txt"]
    for wrong, said in (("none", "nothing at"), ("5", "nothing at"), ("{text_key: body}", "expected a path")):
        with pytest.raises(ConfigurationError, match=said):
            absolute_input(wrong)


def test_languages_and_models_are_known() -> None:
    assert (check_language("ga"), check_language(ANY), check_model("t5")) == ("ga", ANY, "t5")
    with pytest.raises(ConfigurationError, match="expected a code such as en or de, or any, got 'english'; known: "):
        check_language("english")
    with pytest.raises(ConfigurationError, match="expected one of bert, gpt, t5, bart, got 'llama'"):
        check_model("llama")
