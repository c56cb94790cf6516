"""A stage without `--config` runs on its defaults, or on the recipe of the output folder."""

import pytest

from clozeline.configuration.config import load_config
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.recipe import Recipe, load_default_recipe
from tests.pipeline.miniature import write_corpus


@pytest.fixture
def words(tmp_path):
    return [f"input={write_corpus(tmp_path / 'in', 30)}", f"output={tmp_path / 'out'}"]


def test_later_stages_keep_the_recipe_of_the_output(words, tmp_path, capsys):
    chosen = ["corpus=mine", "seed=7", "clean.filters=[]"]

    assert main(["clean", *words, *chosen]) == 0
    for stage, *options in (["dedup"], ["train_tokenizer", "train_tokenizer.size=1000"]):
        assert main([stage, words[1], *options]) == 0

    out = tmp_path / "out"
    shown = "".join(capsys.readouterr().out.split())
    said = f"the recipe of {out}/dedup/config.yaml, and the defaults of train_tokenizer"

    assert said.replace(" ", "") in shown

    recipe = load_config(Recipe, out / "train_tokenizer" / "config.yaml")

    assert (recipe.corpus, recipe.seed, recipe.clean.filters) == ("mine", 7, [])
    assert recipe.dedup.exact is not None


def test_the_defaults_are_the_recipe_that_a_file_would_be(words, tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text("corpus: default\nclean: {}\n")
    recipe, said = load_default_recipe("clean", words)
    assert "clean runs on its defaults" in said
    assert recipe == load_config(Recipe, file, words)


@pytest.mark.parametrize("stage", all_stages())
def test_every_stage_runs_or_says_what_it_lacks(stage, tmp_path, capsys):
    assert main([stage, f"output={tmp_path / 'out'}"]) == 64
    said = capsys.readouterr().err
    reasons = ("is missing", "needs the key", "no input", "has no '", "has no defaults")
    assert any(reason in said for reason in reasons), said


def test_a_recipe_for_a_later_stage_alone_names_the_one_that_made_the_output(
    words, tmp_path, capsys
):
    made = tmp_path / "out/clean/config.yaml"
    made.parent.mkdir(parents=True)
    made.write_text("corpus: mine\nclean: {}\n")
    alone = tmp_path / "alone.yaml"
    alone.write_text("corpus: mine\ndedup: {}\n")

    assert main(["--config", str(alone), *words]) == 64
    assert str(made) in capsys.readouterr().err
    assert [*made.parent.iterdir()] == [made]
