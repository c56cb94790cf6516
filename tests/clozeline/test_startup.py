"""What a start imports: the list of commands, mistakes in keys and a complete pipeline need no
large library."""

import os
import subprocess
import sys

import pytest

from clozeline.pipeline import all_stages, stage_module
from clozeline.pipeline.execution.recipe_command import main
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe

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


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["pipeline", "--help"], 0, ""),
        (["train", "--help"], 0, ""),
        (["pipeline", "--config", "recipe:demo", "inptu=x"], 64, "did you mean 'input'?"),
        (["train"], 64, "--config is missing"),
        (["train", "--config", "recipe:demo", "--wat"], 64, "--wat: no such option"),
        (["train", "--config", "nowhere.yaml"], 64, "nowhere.yaml: no such file"),
        (["evaluate", "nowhere"], 64, "nowhere"),
    ],
)
def test_help_and_a_mistake_need_no_large_library(words, code, error, tmp_path):
    found, said, modules = start(*words, cwd=tmp_path)
    assert (found, error in said) == (code, True)
    assert "pydantic" in modules, "the modules were listed"
    assert not modules & LARGE
    assert not code or not modules & set(map(stage_module, all_stages()))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["pipeline", "--help"], 0),
        (["encode", "--help"], 0),
        (["pipeline", "--config", "recipe:bert", "wrong=1"], 64),
        (["pipeline", "--config", "recipe:bert", "limits.wrong=1"], 64),
    ],
)
def test_help_and_unknown_keys_need_no_algorithm(words, code, tmp_path):
    found, said, modules = start(*words, cwd=tmp_path)
    assert (found, "unknown key" in said) == (code, code == 64)
    assert not modules & {"numpy", "pyarrow", "rich", "tokenizers", "resiliparse"}


def test_the_help_of_a_stage_and_a_wrong_key_of_it_need_no_files(tmp_path):
    for words in (["clean", "--help"], ["pipeline", "--config", "recipe:bert", "clean.wrong=1"]):
        assert not start(*words, cwd=tmp_path)[2] & {"pyarrow", "rich"}


def test_the_start_of_a_complete_pipeline_needs_no_large_library(tmp_path):
    source = write_corpus(tmp_path / "crawl", 25)
    recipe = write_recipe(tmp_path, RECIPE.partition("\n  - {name: span")[0])
    words = ["--config", str(recipe), f"input={source}", f"output={tmp_path / 'out'}"]

    assert main(words) == 0

    code, said, modules = start("pipeline", *words, cwd=tmp_path)

    assert (code, said.count("already complete")) == (0, 6)
    assert not modules & LARGE
