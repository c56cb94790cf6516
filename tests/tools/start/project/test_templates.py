"""Files of a new project: valid, complete and in step with the recipes that come with Clozeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.configuration.config import load_config, validate
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.sizes import all_sizes, read_size
from clozeline.pipeline.execution.stages import check_recipe
from clozeline.pipeline.recipe import Recipe, load_recipe
from clozeline.tools.start.new import grouping_of
from clozeline.tools.start.project.templates import (
    ANY,
    MODELS,
    absolute_input,
    check_language,
    check_model,
    check_size,
    pipeline_yaml,
    sizes_of,
    train_yaml,
)
from clozeline.train.configuration.config import TrainConfig

SIZES = sorted(all_sizes())
TAUGHT = {"distilbert", "tinybert_4", "tinybert_6"}
"""Sizes of models that learn from a teacher."""
OF = {"xlm_r_base": "xlm_r", "deberta_v2_xlarge": "deberta_v2", "gpt1": "gpt", "t5_v1_1_small": "t5", "mass": "mass"}
"""Sizes whose names belong to one of several models, or are no prefix and a word."""


def write(folder: Path, source: str, language: str, model: str, size: str | None = None) -> tuple[Recipe, TrainConfig]:
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(pipeline_yaml(folder, source, language, model), encoding="utf-8")
    recipe = load_recipe(folder / "pipeline.yaml")
    text = train_yaml(folder, model, language, grouping_of(recipe), size)
    (folder / "train.yaml").write_text(text, encoding="utf-8")
    return recipe, load_config(TrainConfig, folder / "train.yaml")


@pytest.mark.parametrize("language", ["en", "de", ANY])
@pytest.mark.parametrize("model", MODELS)
def test_both_files_are_valid_and_name_each_other(tmp_path: Path, model: str, language: str) -> None:
    texts = tmp_path / "texts: 'all' \"mine\""
    texts.mkdir()
    (texts / "a.txt").write_text("x" * 10)
    folder = tmp_path / "my # project"
    if model == "mbart" and language == ANY:
        with pytest.raises(ConfigurationError, match="name it, such as language=en"):
            write(folder, str(texts), language, model)
        return
    recipe, config = write(folder, str(texts), language, model)
    check_recipe(recipe)
    assert [entry.path for entry in recipe.input] == [str(texts)]
    assert recipe.clean.language.options.keep == ([] if language == ANY else [language])
    (entry,) = recipe.corrupt
    (online,) = config.data.corrupt
    assert (online.objective, online.label) == (entry.objective, entry.label), "a preview shows what the model reads"
    assert str(config.data.shards).startswith(f"{folder}/data/group/")
    assert config.steps == "auto"
    assert config.checkpoint.keep_best
    assert config.checkpoint.every == config.evaluate.every


@pytest.mark.parametrize("size", SIZES)
def test_every_size_has_a_model_or_a_teacher(tmp_path: Path, size: str) -> None:
    """It is the size's body, with heads that the model's objective serves, and no higher learning rate."""
    (tmp_path / "a.txt").write_text("x")
    models = [model for model in MODELS if size in sizes_of(model)]
    assert len(models) == (size not in TAUGHT)
    if not models:
        return
    (model,) = models
    assert OF.get(size, model) == model
    published = validate(ModelConfig, read_size(size), size)
    recipe, config = write(tmp_path / "sized", str(tmp_path / "a.txt"), "en", model, size)
    assert [getattr(config.model, key) for key in ("family", "dim", "layers", "position", "tied")] == [
        getattr(published, key) for key in ("family", "dim", "layers", "position", "tied")
    ]
    objective = recipe.corrupt[0].objective.type
    assert set(config.model.targets.values()) <= set(objective.heads)
    assert config.model.architecture in objective.architectures
    _, small = write(tmp_path / "small", str(tmp_path / "a.txt"), "en", model)
    assert small.model.dim == 128
    assert small.optimizer.options.learning_rate >= config.optimizer.options.learning_rate


def test_a_large_corpus_holds_out_less(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 10_000_001)
    assert "{fraction: 0.01}" in pipeline_yaml(tmp_path / "p", str(tmp_path / "*.txt"), "en", "gpt")
    (tmp_path / "a.txt").write_text("x" * 1_000_000)
    assert "{fraction: 0.15}" in pipeline_yaml(tmp_path / "p", str(tmp_path / "*.txt"), "en", "gpt")


def test_words_of_scripts_without_blanks_may_be_long(tmp_path: Path) -> None:
    """Where a clause is a word, the published bound on word lengths would reject most prose."""
    (tmp_path / "a.txt").write_text("x")
    for language, long in (("ja", True), (ANY, True), ("pt", False)):
        recipe, _ = write(tmp_path / language, str(tmp_path / "a.txt"), language, "bert")
        assert (recipe.clean.filters[0].options.mean_word_length[1] > 100) == long


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
    with pytest.raises(ConfigurationError, match=r"expected one of bert, gpt, llama, .*, got 'llama2'"):
        check_model("llama2")
    assert (check_size("llama2_7b", "llama"), check_size(None, "llama")) == ("llama2_7b", None)
    with pytest.raises(ConfigurationError, match=r"expected one of bert_base, .*, got 'roberta_base'"):
        check_size("roberta_base", "bert")
