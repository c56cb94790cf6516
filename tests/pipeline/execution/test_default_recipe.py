"""A stage without `--config` runs on its defaults, or on the recipe of the output folder."""

import json

import pytest

from clozeline.configuration.config import load_config
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.recipe import Recipe, load_default_recipe
from tests.pipeline.captures import SENTENCES


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.jsonl"
    rows = [{"text": f"Chapter {number}. {SENTENCES.strip()}"} for number in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_folder_is_cleaned_without_a_recipe(texts, tmp_path, capsys):
    """It was refused: `--config FILE is missing`."""
    words = [f"input={texts}", f"output={tmp_path / 'out'}"]

    assert main(["clean", *words]) == 0

    shown = " ".join(capsys.readouterr().out.split())

    assert "no --config: clean runs on its defaults, corpus=default" in shown

    recipe = load_config(Recipe, tmp_path / "out" / "clean" / "config.yaml")
    defaults = [chosen.name for chosen in recipe.clean.filters]

    assert defaults == ["gopher_quality", "c4_quality", "gopher_repetition"]
    assert main(["clean", *words]) == 0
    assert "already complete" in capsys.readouterr().err


def test_later_stages_keep_the_recipe_of_the_output(texts, tmp_path, capsys):
    words = [f"output={tmp_path / 'out'}"]
    out = tmp_path / "out"

    assert (
        main(["clean", f"input={texts}", *words, "corpus=mine", "seed=7", "clean.filters=[]"]) == 0
    )
    assert main(["dedup", *words]) == 0
    assert main(["train_tokenizer", *words, "train_tokenizer.size=1000"]) == 0
    assert main(["encode", *words]) == 0

    shown = " ".join(capsys.readouterr().out.split())

    assert (
        f"the recipe of {out}/dedup/config.yaml, and the defaults of train_tokenizer"
        in shown.replace("/ ", "/")
    )

    recipe = load_config(Recipe, out / "encode" / "config.yaml")

    assert (
        recipe.corpus,
        recipe.seed,
        recipe.clean.filters,
    ) == ("mine", 7, [])
    assert recipe.dedup.exact is not None


def test_it_is_the_recipe_that_a_file_would_be(texts, tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text("corpus: default\nclean: {}\n")
    words = [f"input={texts}", f"output={tmp_path / 'out'}", "clean.keep_text=1"]
    recipe, _ = load_default_recipe("clean", words)
    assert recipe == load_config(Recipe, file, words)


@pytest.mark.parametrize("stage", all_stages())
def test_every_stage_runs_or_says_what_it_lacks(stage, tmp_path, capsys):
    code = main([stage, f"output={tmp_path / 'out'}"])
    shown = capsys.readouterr()

    assert code == 64

    assert any(
        said in shown.err
        for said in ("is missing", "needs the key", "no input", "has no '", "has no defaults")
    ), shown.err
    assert "Traceback" not in shown.err


def test_a_mistake_is_one_of_the_command_line(tmp_path, capsys):
    assert main(["clean", "input=x", f"output={tmp_path / 'out'}", "clean.filter=[]"]) == 64
    assert "command line: unknown key 'clean.filter'" in capsys.readouterr().err
    assert main([f"output={tmp_path / 'out'}"]) == 64
    assert "clozeline new DIR input=FILES" in capsys.readouterr().err


LATER = {
    "dedup": "{}",
    "train_tokenizer": "{name: byte_bpe, size: 500}",
    "encode": "{}",
    "balance": "{alpha: 0.5}",
    "group": "{}",
    "corrupt": "[{name: causal_lm, max_length: 64}]",
}


@pytest.mark.parametrize("stage", LATER)
def test_a_recipe_for_a_later_stage_alone_names_the_one_that_made_the_output(
    texts, tmp_path, capsys, stage
):
    out = tmp_path / "out"
    words = ["clean.filters=[]", "clean.language=null", "corpus=mine"]

    assert main(["clean", f"input={texts}", f"output={out}", *words]) == 0

    alone = tmp_path / "alone.yaml"
    alone.write_text(f"corpus: mine\n{stage}: {LATER[stage]}\n", encoding="utf-8")
    made = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    texts.rename(tmp_path / "away.jsonl")
    capsys.readouterr()

    # nothing is read or written: the input is not even there
    for command in ([], [stage]):
        assert main([*command, "--config", str(alone), f"input={texts}", f"output={out}"]) == 64
        assert str(out / "clean" / "config.yaml") in capsys.readouterr().err
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == made

    # without an earlier run there is no such recipe
    assert main(["--config", str(alone), f"output={tmp_path / 'new'}"]) == 64
    assert "config.yaml" not in capsys.readouterr().err


def test_the_named_recipe_continues_the_output(texts, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["clean.filters=[]", "clean.language=null", "corpus=mine"]

    assert main(["clean", f"input={texts}", f"output={out}", *words]) == 0

    cleaned = {path: path.stat().st_mtime_ns for path in out.glob("clean/documents/*")}
    copy = tmp_path / "copy.yaml"
    copy.write_bytes((out / "clean" / "config.yaml").read_bytes())

    assert main(["--config", str(copy), "dedup={}"]) == 0
    assert {path: path.stat().st_mtime_ns for path in out.glob("clean/documents/*")} == cleaned
    assert any((out / "dedup" / "documents").iterdir())
