"""First steps: `clozeline new`, `demo`, `show` and `doctor`."""

import csv
import io
import json
import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from pydoc_data.topics import topics

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clozeline.configuration.config import load_config, validate
from clozeline.configuration.overrides import parse_yaml
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.sizes import all_sizes, read_size
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.execution.stages import check_recipe
from clozeline.pipeline.ingest.readers import detect_reader
from clozeline.pipeline.recipe import InputEntry, load_recipe
from clozeline.tools.start import demo
from clozeline.tools.start.doctor import main as doctor
from clozeline.tools.start.multirun.runner import run_step
from clozeline.tools.start.new import grouping_of
from clozeline.tools.start.new import main as new
from clozeline.tools.start.project.templates import (
    ANY,
    MODELS,
    find_name,
    pipeline_yaml,
    sizes_of,
    train_yaml,
    with_absolute_paths,
)
from clozeline.train.configuration.config import TrainConfig, check_world
from clozeline.train.logs.json_lines import read_lines, step_records
from tests.distributed import run_program
from tests.matrices import mark_slow_after, mark_slow_but


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for number, text in enumerate(sorted(topics.values())):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("model", mark_slow_but(["gpt"], MODELS))
def test_what_it_writes_runs(texts, tmp_path, model, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert new(["mine", f"input={texts}", "language=en", f"model={model}"]) == 0

    monkeypatch.chdir(texts)  # the paths of the files are absolute

    assert run_pipeline(["--config", str(tmp_path / "mine" / "pipeline.yaml")]) == 0

    more = [
        "steps=2",
        "schedule.warmup=0",
        "data.micro_batch=2",
        "data.global_batch=16",
        "data.lanes=16",
    ]

    train(tmp_path / "mine", *more)

    assert (tmp_path / "mine" / "run" / "report.html").is_file()


def train(project, *words, timeout=300):
    words = ("--config", str(project / "train.yaml"), *words)
    done = run_program(
        f"from clozeline.train.command import main\nassert main({list(words)}) == 0",
        project,
        timeout,
    )

    assert done.codes == [0], done.errors


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_three_questions_are_asked_until_the_answers_are_valid(
    texts, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("sys.stdin", Terminal(f"{tmp_path}/none\n{texts}\nenglish\nde\n\n"))

    assert new([str(tmp_path / "mine")]) == 0

    out = capsys.readouterr().out

    assert out.count("Your texts: ") == 2
    assert out.count("Their language: ") == 2
    assert "nothing at" in out

    recipe = (tmp_path / "mine" / "pipeline.yaml").read_text(encoding="utf-8")

    assert "keep: [de]" in recipe
    assert "name: masked_lm" in recipe
    assert "stop_words: 0" in recipe

    monkeypatch.setattr("sys.stdin", Terminal(f"{texts}\n"))

    assert new([str(tmp_path / "other")]) == 64
    assert "no answer; give input=FILES" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_without_a_terminal_the_texts_are_needed(texts, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO())

    assert new([str(tmp_path / "mine")]) == 64
    assert (
        "input is missing: give the folder of your texts, such as input=texts"
        in capsys.readouterr().err
    )
    assert new([str(tmp_path / "mine"), f"input={texts}"]) == 0
    assert "keep: []" in (tmp_path / "mine" / "pipeline.yaml").read_text(encoding="utf-8")

    assert new([str(tmp_path / "wrong"), f"input={texts}", "model=llama", "size=bert_base"]) == 64
    assert not (tmp_path / "wrong").exists()


def touch_nothing(file):
    pass


def add_a_word(file):
    file.write_text(file.read_text() + "\n# mine")


def write_as_somebody_else(file):
    file.write_bytes(b"\xff")


def link_elsewhere(file):
    file.unlink()
    file.symlink_to(file.with_name("pipeline.yaml"))


@pytest.mark.parametrize(
    ("change", "is_replaced"),
    [
        (touch_nothing, True),
        (Path.unlink, True),  # a killed `new`
        (add_a_word, False),
        (write_as_somebody_else, False),
        (link_elsewhere, False),
    ],
)
def test_only_files_that_nobody_changed_are_replaced(texts, tmp_path, capsys, change, is_replaced):
    words = [str(tmp_path / "my mine"), f"input={texts}", "kind=pages"]
    assert new(words) == 0
    files = [tmp_path / "my mine" / name for name in ("pipeline.yaml", "train.yaml")]
    change(files[1])
    before = [file.exists() and file.read_bytes() for file in files]

    assert new([*words, "model=t5"]) == (0 if is_replaced else 64)

    said = capsys.readouterr()
    assert str(files[0 if is_replaced else 1]) in (said.out if is_replaced else said.err)
    assert ([file.read_bytes() for file in files] != before) == is_replaced


def test_each_command_of_the_files_is_one_line_that_runs(texts, tmp_path, capsys):
    folder = tmp_path / "my # project"
    assert new([str(folder), f"input={texts}", "language=en"]) == 0
    files = [(folder / name).read_text() for name in ("pipeline.yaml", "train.yaml")]
    shown = [line.strip("# ") for text in files for line in text.splitlines()]
    shown += capsys.readouterr().out.splitlines()
    commands = {tuple(shlex.split(line)) for line in shown if line.strip().startswith("clozeline ")}
    for _, command, *words in commands:
        assert (command, words[:2]) in [
            ("pipeline", ["--config", str(folder / "pipeline.yaml")]),
            ("train", ["--config", str(folder / "train.yaml")]),
        ]
    assert "recipe:bert" in files[1]
    assert "# export     as ModernBertForMaskedLM" in files[1]


def test_of_many_files_one_of_each_suffix_is_checked(tmp_path, monkeypatch, capsys):
    opened = []

    def note(path, named=None):
        opened.append(path.suffix)
        return detect_reader(path, named)

    monkeypatch.setattr("clozeline.pipeline.execution.plan.detect_reader", note)
    (tmp_path / "in").mkdir()
    for number in range(60):
        (tmp_path / f"in/{number}.{'md' if number % 2 else 'txt'}").write_text("some words")

    assert new([str(tmp_path / "mine"), f"input={tmp_path}/in"]) == 0
    assert sorted(opened) == [".md", ".txt"]

    for number in range(3):
        (tmp_path / f"in/{number}.odd").write_text("some words")

    assert new([str(tmp_path / "other"), f"input={tmp_path}/in"]) == 64
    assert "files of this type (3)" in capsys.readouterr().err


def with_text_in(column):
    def rows(text, number):
        row = {"id": number, "title": text[:8]}
        row |= {column: text} if "." not in column else {"doc": {"title": "a", "text": text}}
        return row

    return rows


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv", "parquet"])
@pytest.mark.parametrize("column", ["body", "doc.text", "the text"])
def test_without_a_text_column_nothing_is_written(tmp_path, capsys, ending, column):
    if "." in column and ending in ("csv", "tsv"):
        return
    texts = [text.replace("\n", " ").replace("\t", " ") for text in sorted(topics.values())[:30]]
    rows = [with_text_in(column)(text, number) for number, text in enumerate(texts)]
    source = tmp_path / f"rows.{ending}"
    if ending == "jsonl":
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif ending == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), source)
    else:
        with source.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], delimiter="," if ending == "csv" else "\t")
            writer.writeheader()
            writer.writerows(rows)

    words = [str(tmp_path / "mine"), f"input={source}"]
    for more in ([], ["kind=pages"], ["input.text_key=doc"] if "." in column else []):
        assert new([*words, *more]) == 64
        message = capsys.readouterr().err
        assert str(source) in message
        assert not (tmp_path / "mine").exists()

    proposed = re.search(r": add ('[^']+'|\S+);", message)[1]
    assert new([*words, *shlex.split(proposed)]) == 0
    assert read_input(tmp_path / "mine") == {"path": str(source), "text_key": column}


def test_a_table_without_names_is_told_how_to_name_its_columns(tmp_path, capsys):
    source = tmp_path / "rows.csv"
    with source.open("w", newline="") as file:
        csv.writer(file).writerows(enumerate(sorted(topics.values())[:30]))
    words = [str(tmp_path / "mine"), f"input={source}"]

    assert new(words) == 64

    proposed = re.search(r": add (input\.columns=)'(.*?)'", capsys.readouterr().err)

    assert new([*words, "".join(proposed.groups())]) == 0


def read_input(folder):
    (entry,) = parse_yaml((folder / "pipeline.yaml").read_text())["input"]
    return entry


@pytest.mark.parametrize("word", ["text_key=body", "input.0.text_key=body", "input.text_key=body"])
def test_another_text_column_is_named_by_a_key_of_the_input(tmp_path, capsys, word):
    source = tmp_path / "rows.jsonl"
    source.write_text(json.dumps({"body": "It rained all day."}) + "\n")
    words = [str(tmp_path / "mine"), f"input={source}"]
    if new([*words, word]) == 64:
        key = re.search(r"here it is '(.+)'", capsys.readouterr().err)[1]
        assert new([*words, f"{key}=body"]) == 0
    assert read_input(tmp_path / "mine")["text_key"] == "body"


@pytest.mark.parametrize(
    ("named", "model", "size"),
    [
        ("BERT", "bert", None),
        ("gpt2", "gpt", "gpt2_small"),
        ("gpt2-medium", "gpt", "gpt2_medium"),
        ("124M", "gpt", "gpt2_small"),
        ("bert-base-uncased", "bert", "bert_base"),
        ("google-bert/bert-large-cased", "bert", "bert_large"),
        ("FacebookAI/roberta-base", "roberta", "roberta_base"),
        ("xlm-roberta-large", "xlm_r", "xlm_r_large"),
        ("xlm-mlm-en-2048", "xlm", "xlm_en_2048"),
        ("t5-small", "t5", "t5_small"),
        ("google/t5-v1_1-base", "t5", "t5_v1_1_base"),
        ("microsoft/deberta-v3-base", "deberta_v3", "deberta_v3_base"),
        ("google/electra-small-discriminator", "electra", "electra_small"),
        ("meta-llama/Llama-3.2-1B", "llama", "llama3_2_1b"),
        ("openai-gpt", "gpt", "gpt1"),
        ("elmo", "elmo", "elmo"),
        ("distilbert-base-uncased", None, None),
        ("berd", None, None),
    ],
)
def test_names_of_hubs_are_understood(named, model, size):
    assert find_name(named, MODELS) == model
    assert model is None or find_name(named, sizes_of(model)) == size


@pytest.mark.parametrize("word", ["model=gpt2", "size=124M"])
def test_a_named_size_is_taken_or_told(texts, tmp_path, capsys, word):
    assert new([str(tmp_path / "mine"), f"input={texts}", "kind=pages", word]) == 0
    told = "size=gpt2_small" in capsys.readouterr().out
    training = parse_yaml((tmp_path / "mine/train.yaml").read_text())
    assert (training["model"].get("size") == "gpt2_small") != told


@pytest.mark.parametrize(
    ("word", "said"),
    [("de,ru", "clean.language.keep="), ("dee", "did you mean 'de'?\n"), ("klingon", "more")],
)
def test_a_wrong_language_is_answered_in_a_few_words(texts, tmp_path, capsys, word, said):
    assert new([str(tmp_path / "mine"), f"input={texts}", f"language={word}"]) == 64
    message = capsys.readouterr().err
    assert said in message
    assert len(message) < 400


SIZES = sorted(all_sizes())
TAUGHT = {"distilbert", "tinybert_4", "tinybert_6"}
"""Sizes of models that learn from a teacher."""
OF = {
    "xlm_r_base": "xlm_r",
    "deberta_v2_xlarge": "deberta_v2",
    "gpt1": "gpt",
    "t5_v1_1_small": "t5",
    "mass": "mass",
}
"""Sizes whose names belong to one of several models, or are no prefix and a word."""


def write(folder, source, language, model, size=None):
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(
        pipeline_yaml(folder, [InputEntry(path=source)], language, model), encoding="utf-8"
    )
    recipe = load_recipe(folder / "pipeline.yaml")
    text = train_yaml(folder, language, model, grouping_of(recipe), size)
    (folder / "train.yaml").write_text(text, encoding="utf-8")
    return recipe, load_config(TrainConfig, folder / "train.yaml")


@pytest.mark.parametrize("language", mark_slow_after(1, ["en", "de", ANY]))
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

    assert (online.objective, online.label) == (entry.objective, entry.label), (
        "a preview shows what the model reads"
    )
    assert str(config.data.shards).startswith(f"{folder}/data/group/")
    assert config.steps == "auto"
    assert config.checkpoint.keep_best
    assert config.checkpoint.every == config.evaluate.every


@pytest.fixture(scope="module")
def small(texts, tmp_path_factory):
    """The training of each model without a size."""
    folder = tmp_path_factory.mktemp("small")
    return {model: write(folder / model, str(texts), "en", model)[1] for model in MODELS}


@pytest.mark.parametrize("size", SIZES)
def test_every_size_has_a_model_or_a_teacher(tmp_path, size, small):
    """It is the size's body, with heads that the model's objective serves, and no higher learning
    rate."""
    (tmp_path / "a.txt").write_text("x")
    models = [model for model in MODELS if size in sizes_of(model)]

    assert len(models) == (size not in TAUGHT)

    if not models:
        return
    (model,) = models

    assert OF.get(size, model) == model

    published = validate(ModelConfig, read_size(size), size)
    recipe, config = write(tmp_path / "sized", str(tmp_path / "a.txt"), "en", model, size)

    assert [
        getattr(config.model, key) for key in ("family", "dim", "layers", "position", "tied")
    ] == [getattr(published, key) for key in ("family", "dim", "layers", "position", "tied")]

    objective = recipe.corrupt[0].objective.type

    assert set(config.model.targets.values()) <= set(objective.heads)
    assert config.model.architecture in objective.architectures
    assert small[model].model.dim == 128
    assert small[model].optimizer.options.learning_rate >= config.optimizer.options.learning_rate


def test_a_small_variant_reads_few_rows_a_step_with_muon(small):
    """Rows, optimizer and schedule that won the first minutes of training."""
    for config in small.values():
        assert config.data.global_batch == 16
        assert config.evaluate.every * 16 == 6400
        assert all(check_world(config, ranks) >= 1 for ranks in (1, 2, 4))
    names = {
        model: small[model].optimizer.name for model in ("bert", "electra", "gpt", "llama", "t5")
    }
    assert set(names.values()) == {"muon"}
    options = {model: small[model].optimizer.options for model in names}
    assert options["bert"].adam_rate < options["gpt"].adam_rate


@pytest.mark.parametrize("path", ["a.jsonl", "*.jsonl", ["a.jsonl", "https://x.example/b.txt"]])
def test_inputs_become_absolute(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text("{}")
    entry = with_absolute_paths(InputEntry(path=path, options={"text_key": "body"}))
    assert entry.paths[0].startswith(str(tmp_path))
    assert entry.paths[1:] == (path[1:] if isinstance(path, list) else [])
    assert entry.options == {"text_key": "body"}


ROOT = Path(__file__).parents[3]


def test_a_failed_step_ends_the_demo_with_its_code(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(
        demo,
        "write_pages",
        lambda _: run_step("python", "-c", "raise SystemExit(3)", "https://me:pw@h"),
    )

    assert demo.main(["--output", str(tmp_path)]) == 3

    said = capsys.readouterr()

    assert "$ python -c 'raise SystemExit(3)' https://***@h" in said.out
    assert "ended with exit code 3" in said.err


@pytest.mark.slow
def test_small_demo_and_its_second_run(tmp_path):
    """Every step once; given again, nothing is written, made or trained again."""
    command = [
        sys.executable,
        "-m",
        "clozeline",
        "demo",
        "--output",
        str(tmp_path / "demo"),
        "--steps",
        "8",
    ]

    first, second = (
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
        for _ in range(2)
    )

    for done in (first, second):
        assert done.returncode == 0, done.stderr
        assert "the unigram entropy" in done.stdout
        assert all(f"{text}\n    " in done.stdout for text in demo.SENTENCES)
        assert "model for transformers: " in done.stdout

    assert ("apart" in first.stdout, "apart" in second.stdout) == (True, False)
    assert "corrupt: already complete" in second.stderr
    assert "python_pages" not in second.stdout
    assert "8/8" not in second.stdout, "no step was trained again"
    assert len(step_records(read_lines(tmp_path / "demo" / "train" / "metrics.jsonl"))) == 8


def test_this_machine_has_all_that_is_needed(tmp_path, capsys):
    assert doctor([f"output={tmp_path / 'new' / 'folder'}"]) == 0

    names = {line.split("  ")[0] for line in capsys.readouterr().out.splitlines()}

    assert {
        "Python",
        "torch",
        "GPUs",
        "C++ compiler",
        "compiled module",
        "cores",
        "memory",
        "disk",
    } <= names
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_is_named_with_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(
        metadata,
        "requires",
        lambda _: ["numpy>=2", "no-such-package==1", 'extra-one; extra == "x"'],
    )

    assert doctor([]) == 64

    out, err = capsys.readouterr()

    assert "missing: no-such-package, torch, C++ compiler" in err
    assert all(
        advice in out
        for advice in ("install g++", "pip install torch", "pip install 'no-such-package==1'")
    )
