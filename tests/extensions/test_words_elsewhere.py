"""Words that people bring from other programs: each leads to something that exists, and to the
right thing."""

import re

import pytest

from clozeline import HOME
from clozeline.__main__ import commands
from clozeline.command import keys_of
from clozeline.configuration.config import load_keys
from clozeline.configuration.described_keys import describe
from clozeline.configuration.overrides import fields_of, parse_yaml
from clozeline.configuration.words_elsewhere import _FILE, _read, translate_key, words_of
from clozeline.extension_list import HIDE
from clozeline.extensions.evaluation.commands.evaluate import PerplexityOptions, SuiteOptions
from clozeline.extensions.evaluation.commands.evaluate import main as evaluate
from clozeline.extensions.inference.generation import Settings as GenerateSettings
from clozeline.extensions.tasks.commands.finetune import FinetuneOptions
from clozeline.extensions.tasks.commands.predict import PredictOptions
from clozeline.pipeline.execution.recipe_command import PipelineOptions
from clozeline.pipeline.execution.recipe_command import main as run_recipe
from clozeline.pipeline.recipe import Recipe
from clozeline.train.command import TrainOptions
from clozeline.train.command import main as train
from clozeline.train.configuration.config import TrainConfig
from tests.refusals import refused
from tests.registries import REGISTRIES

FILES = [_FILE, *HOME.glob(f"extensions/*/{_FILE.name}")]
WORDS = {kind: words_of(kind) for kind in ("keys", "algorithms", "options", "commands")}
OPTIONS = (PipelineOptions, TrainOptions, PerplexityOptions, SuiteOptions)
SCHEMAS = (
    PerplexityOptions,
    SuiteOptions,
    TrainConfig,
    Recipe,
    GenerateSettings,
    FinetuneOptions,
    PredictOptions,
)


def option_names():
    """Return the dotted keys of the commands, and those of every algorithm alone."""
    listed = {key for schema in SCHEMAS for key, *_ in describe(schema)}

    for registry in REGISTRIES:
        for name in registry.available():
            options = getattr(registry.load_class(name), "Options", None)
            listed |= set() if options is None else {key for key, *_ in keys_of(options)}

    return listed


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_the_words_are_read_as_strict_yaml_reads_them(file):
    assert _read(file) == parse_yaml(file.read_text())


@pytest.mark.parametrize(("hide", "lead"), [("", "evaluate"), ("evaluation", None)])
def test_words_lead_to_what_an_extension_adds(hide, lead, monkeypatch):
    monkeypatch.setenv(HIDE, hide)

    assert words_of("commands").get("perplexity", {"write": [None]})["write"] == [lead]
    assert "fit" in words_of("commands")


def test_every_key_that_is_named_exists():
    known = option_names()
    last_words = {key.rpartition(".")[2] for key in known}

    for word, entry in WORDS["keys"].items():
        for key in entry["write"]:
            path = re.sub(r"\.\d+", "", key)
            parent, _, last = path.rpartition(".")
            assert path in known or (parent in known and last in last_words), (word, key)


def test_every_algorithm_and_command_that_is_named_exists():
    folders = {registry.name for registry in REGISTRIES}

    for folder, words in WORDS["algorithms"].items():
        known = {
            name
            for registry in REGISTRIES
            if registry.name == folder
            for name in registry.available()
        }

        assert folder in folders

        for word, entry in words.items():
            assert set(entry["write"]) <= known, word

    keys = {key for each in OPTIONS for key in fields_of(each)}
    switches = keys | {f"--{key.replace('_', '-')}" for key in keys}
    for word, entry in WORDS["options"].items():
        assert {option.split()[0] for option in entry["write"]} <= switches, word

    known = {name for group in commands().values() for name in group}
    for word, entry in WORDS["commands"].items():
        assert set(entry["write"]) <= known, word
        assert word not in known


MODEL = (
    "model: {family: encoder, dim: 8, layers: 1, attention_heads: 2, ffn_dim: 16, heads: "
    "{masked_lm: 1.0}}\n"
)


TRAIN = {
    "lr=1e-4": "optimizer.learning_rate",
    "epochs=3": "steps",
    "optimizer.lr=1e-4": "learning_rate",
    "optimizer.name=adam": "adamw",
    "model.heads={mlm: 1.0}": "masked_lm",
    "model.family=llama": "decoder",
    "base_model=bert": "model.init_from",
    "max_iters=3": "steps",
    "eval_interval=3": "evaluate.every",
    "wandb=True": "log.tracker",
    "schedule.min_lr=1e-5": "final",
    "dropout=0.1": "model.dropout.hidden",
    "--plan": "--dry-run",
}


@pytest.mark.parametrize("word", TRAIN)
def test_words_of_other_trainers_are_translated(word, tmp_path, capsys):
    file = tmp_path / "train.yaml"
    file.write_text(MODEL + "data: {shards: x}\noutput: y\n")
    assert train(["--config", str(file), "--dry-run", word]) == 64
    assert f"here it is '{TRAIN[word]}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("model.dropout=0.1", "model.dropout.hidden"),
        ("device=cuda", "CUDA_VISIBLE_DEVICES"),
        ("log.tracker=tensorboard", "tensorboard --logdir"),
        ("evaluate=null", "evaluate.max_rows=0"),
        ("resume=true", "auto, the default"),
    ],
)
def test_what_to_type_instead_is_named(word, named):
    with refused(named):
        load_keys(TrainConfig, parse_yaml(MODEL), [word])


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("tasks=hellaswag", "export-model RUN OUT, then lm_eval"),
        ("text=x.txt", "'perplexity'"),
        ("suite=hellaswag", "export-model RUN OUT, then lm_eval"),
    ],
)
def test_words_of_harnesses_are_translated(word, named, tmp_path, capsys):
    assert evaluate([str(tmp_path), word]) == 64
    assert named in capsys.readouterr().err


PIPELINE = {
    "data_folder=x": "input",
    "vocab_size=32000": "train_tokenizer.size",
    "corrupt.0.mlm_probability=0.3": "mask_rate",
    "corrupt.0.name=nsp": "next_sentence_prediction",
    "input.0.text_column=content": "text_key",
    "jaccard_threshold=0.8": "dedup.near.verify",
}


@pytest.mark.parametrize("word", PIPELINE)
def test_words_of_other_pipelines_are_translated(word, tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text('{"content": "a b"}\n')
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        f"corpus: c\ninput: [{{path: {tmp_path}/a.jsonl}}]\noutput: {tmp_path}/out\nclean: "
        "{}\ntrain_tokenizer: {}\nencode: {}\ngroup: {}\ncorrupt: [{name: masked_lm}]\n"
    )

    assert run_recipe(["--config", str(file), "--plan", word]) == 64
    assert f"here it is '{PIPELINE[word]}'" in capsys.readouterr().err


def test_a_language_is_known_by_its_other_codes(tmp_path, capsys):
    # ISO 639-2 has two codes for some languages: ger and deu are German, and grc is Ancient Greek
    (tmp_path / "a.txt").write_text("Der Hund bellt.\n")
    words = [f"input={tmp_path}/a.txt", f"output={tmp_path}/out", "--plan"]

    for code, right in {"ger": "", "fre": "", "chi": "", "deu": "", "German": "de"}.items():
        language = f"clean.language={{name: py3langid, keep: [{code}]}}"
        assert run_recipe(["clean", *words, language]) == (64 if right else 0), code
        said = capsys.readouterr().err
        assert not right or f"did you mean '{right}'" in said


@pytest.mark.parametrize(
    ("word", "right"), {"max_new_tokens": "max_tokens", "num_beams": "width"}.items()
)
def test_words_of_generation_are_translated(word, right):
    with refused(f"here it is '{right}'"):
        load_keys(GenerateSettings, {}, [f"{word}=5"])


def test_a_word_is_translated_only_into_a_key_that_the_command_has():
    assert translate_key("batch_size", ["max_tokens", "seed"]) is None
    assert translate_key("no_such_word", ["data.global_batch"]) is None
    assert translate_key("Batch-Size", ["data.global_batch"]).startswith(
        "here it is 'data.global_batch'"
    )
    assert (
        translate_key("max_new_tokens", ["max_tokens"], "generate.")
        == "here it is 'generate.max_tokens'"
    )
