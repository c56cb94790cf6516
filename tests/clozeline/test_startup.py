"""What a start imports: the list of commands, mistakes in keys and a complete pipeline need no
large library."""

import os
import subprocess
import sys

import pytest

from clozeline.pipeline import all_stages, stage_module
from clozeline.pipeline.execution.recipe_command import main
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe
from tests.train.masked_set import write_config, write_masked_sets

LARGE = {"torch", "deepspeed", "transformers", "datatrove", "scipy", "sklearn", "sacrebleu", "nltk"}
_LISTING = """
import os, sys, clozeline.__main__
os._exit = sys.exit  # the trainer's last call, which would skip the list
try:
    code = clozeline.__main__.start()
except SystemExit as end:
    code = end.code
sys.stdout.write("\\nmodules " + " ".join(sys.modules))
raise SystemExit(code)
"""


def start(*words, cwd):
    """Start the command in a process.

    Return its exit code, its errors, and the modules that it imported.
    """
    command = [sys.executable, "-c", _LISTING, *words]
    environment = os.environ | {"COLUMNS": "120"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr, set(done.stdout.rpartition("\nmodules ")[2].split())


def test_the_list_of_commands_imports_no_stage_and_no_library(tmp_path):
    code, _, modules = start("--help", cwd=tmp_path)
    assert code == 0
    assert not modules & (LARGE | {"numpy", "pyarrow", "pydantic", "omegaconf", "rich", "yaml"})
    assert not [name for name in modules if name.endswith(".stage")]


FILES = LARGE | {"pyarrow", "rich"}
ALGORITHMS = FILES | {"numpy", "tokenizers", "resiliparse"}


@pytest.mark.parametrize(
    ("words", "error", "unwanted"),
    [
        (["pipeline", "--help"], "", ALGORITHMS),
        (["encode", "--help"], "", ALGORITHMS),
        (["clean", "--help"], "", FILES),
        (["train", "--help"], "", LARGE),
        (["pipeline", "--config", "recipe:demo", "inptu=x"], "did you mean 'input'?", LARGE),
        (["pipeline", "--config", "recipe:bert", "limits.wrong=1"], "unknown key", ALGORITHMS),
        (["pipeline", "--config", "recipe:bert", "clean.wrong=1"], "unknown key", FILES),
        (["train"], "--config is missing", LARGE),
        (["train", "--config", "recipe:demo", "--wat"], "--wat: no such option", LARGE),
        (["train", "--config", "nowhere.yaml"], "nowhere.yaml: no such file", LARGE),
        (["evaluate", "nowhere"], "nowhere", LARGE),
    ],
)
def test_help_and_a_mistake_need_no_large_library(words, error, unwanted, tmp_path):
    """Nor, but for the options of an algorithm, a stage, the files or the algorithms."""
    code, said, modules = start(*words, cwd=tmp_path)
    assert (code, error in said) == (64 if error else 0, True)
    assert "pydantic" in modules, "the modules were listed"
    assert not modules & unwanted
    assert not error or not modules & set(map(stage_module, all_stages()))


def test_the_start_of_a_complete_pipeline_needs_no_large_library(tmp_path):
    source = write_corpus(tmp_path / "crawl", 25)
    recipe = write_recipe(tmp_path, RECIPE.partition("\n  - {name: span")[0])
    words = ["--config", str(recipe), f"input={source}", f"output={tmp_path / 'out'}"]

    assert main(words) == 0

    code, said, modules = start("pipeline", *words, cwd=tmp_path)

    assert (code, said.count("already complete")) == (0, 6)
    assert not modules & LARGE


def test_a_training_that_compiles_nothing_loads_no_compiler(tmp_path):
    """torch imports dynamo to leave optimizers out of it: a second and 70 MB."""
    shards = write_masked_sets(tmp_path / "sets")
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "run")
    code, _, modules = start("train", "--config", str(config), "steps=1", cwd=tmp_path)
    assert code == 0
    assert "torch._dynamo" not in modules
