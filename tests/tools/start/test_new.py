"""`clozeline new`: by flags or by questions; what it writes runs from texts to a step of training."""

import io
from pydoc_data.topics import topics

import pytest

from clozeline.configuration.config import load_config, validate
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.sizes import all_sizes, read_size
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.execution.stages import check_recipe
from clozeline.pipeline.recipe import load_recipe
from clozeline.tools.start.new import grouping_of, main
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
from tests.distributed import run_program
from tests.matrices import mark_slow_but


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for number, text in enumerate(sorted(topics.values())):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("model", mark_slow_but(["gpt"], MODELS))
def test_what_it_writes_runs(texts, tmp_path, model, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["mine", f"input={texts}", "language=en", f"model={model}"]) == 0
    monkeypatch.chdir(texts)  # the paths of the files are absolute
    assert run_pipeline(["--config", str(tmp_path / "mine" / "pipeline.yaml")]) == 0
    more = ["steps=2", "schedule.warmup=0", "data.micro_batch=2", "data.global_batch=16", "data.lanes=16"]
    train(tmp_path / "mine", *more)
    assert (tmp_path / "mine" / "run" / "report.html").is_file()


def train(project, *words, timeout=300):
    words = ("--config", str(project / "train.yaml"), *words)
    done = run_program(f"from clozeline.train.command import main\nassert main({list(words)}) == 0", project, timeout)
    assert done.codes == [0], done.errors


class Terminal(io.StringIO):
    """Typed lines."""

    def isatty(self):
        return True


def test_three_questions_are_asked_until_the_answers_are_valid(texts, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Terminal(f"{tmp_path}/none\n{texts}\nenglish\nde\n\n"))
    assert main([str(tmp_path / "mine")]) == 0
    out = capsys.readouterr().out
    assert out.count("Your texts: ") == 2
    assert out.count("Their language: ") == 2
    assert "nothing at" in out
    recipe = (tmp_path / "mine" / "pipeline.yaml").read_text(encoding="utf-8")
    assert "keep: [de]" in recipe
    assert "name: masked_lm" in recipe
    assert "stop_words: 0" in recipe
    monkeypatch.setattr("sys.stdin", Terminal(f"{texts}\n"))
    assert main([str(tmp_path / "other")]) == 64
    assert "no answer; give input=FILES" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_without_a_terminal_the_texts_are_needed(texts, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main([str(tmp_path / "mine")]) == 64
    assert "input is missing: give the folder of your texts, such as input=texts" in capsys.readouterr().err
    assert main([str(tmp_path / "mine"), f"input={texts}"]) == 0
    assert "keep: []" in (tmp_path / "mine" / "pipeline.yaml").read_text(encoding="utf-8")
    before = (tmp_path / "mine" / "train.yaml").read_bytes()
    assert main([str(tmp_path / "sized"), f"input={texts}", "model=llama", "size=llama3_8b"]) == 0
    assert "size: llama3_8b" in (tmp_path / "sized" / "train.yaml").read_text(encoding="utf-8")
    assert main([str(tmp_path / "wrong"), f"input={texts}", "model=llama", "size=bert_base"]) == 64
    assert not (tmp_path / "wrong").exists()
    assert main([str(tmp_path / "mine"), f"input={texts}", "model=t5"]) == 64
    assert "pipeline.yaml exists: name another folder, or remove the file" in capsys.readouterr().err
    assert (tmp_path / "mine" / "train.yaml").read_bytes() == before


SIZES = sorted(all_sizes())
TAUGHT = {"distilbert", "tinybert_4", "tinybert_6"}
"""Sizes of models that learn from a teacher."""
OF = {"xlm_r_base": "xlm_r", "deberta_v2_xlarge": "deberta_v2", "gpt1": "gpt", "t5_v1_1_small": "t5", "mass": "mass"}
"""Sizes whose names belong to one of several models, or are no prefix and a word."""


def write(folder, source, language, model, size=None):
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(pipeline_yaml(folder, source, language, model), encoding="utf-8")
    recipe = load_recipe(folder / "pipeline.yaml")
    text = train_yaml(folder, model, language, grouping_of(recipe), size)
    (folder / "train.yaml").write_text(text, encoding="utf-8")
    return recipe, load_config(TrainConfig, folder / "train.yaml")


@pytest.mark.parametrize("language", ["en", "de", ANY])
@pytest.mark.parametrize("model", MODELS)
def test_both_files_are_valid_and_name_each_other(tmp_path, model, language):
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
def test_every_size_has_a_model_or_a_teacher(tmp_path, size):
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


def test_inputs_become_absolute_and_must_exist(tmp_path, monkeypatch):
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


def test_languages_and_models_are_known():
    assert (check_language("ga"), check_language(ANY), check_model("t5")) == ("ga", ANY, "t5")
    with pytest.raises(ConfigurationError, match="expected a code such as en or de, or any, got 'english'; known: "):
        check_language("english")
    with pytest.raises(ConfigurationError, match=r"expected one of bert, gpt, llama, .*, got 'llama2'"):
        check_model("llama2")
    assert (check_size("llama2_7b", "llama"), check_size(None, "llama")) == ("llama2_7b", None)
    with pytest.raises(ConfigurationError, match=r"expected one of bert_base, .*, got 'roberta_base'"):
        check_size("roberta_base", "bert")
