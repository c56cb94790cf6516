"""What a start imports: help, a mistake and a complete pipeline need neither torch nor the other large libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clozeline.pipeline.execution.recipe_command import main
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe

LARGE = {"torch", "deepspeed", "transformers", "datatrove", "pandas", "scipy", "sklearn"}
_LISTING = """
import os, sys, clozeline.__main__
os._exit = sys.exit  # the trainer's last call, which would skip the list
try:
    code = clozeline.__main__.main()
except SystemExit as end:
    code = end.code
sys.stdout.write("\\nmodules " + " ".join(sys.modules))
raise SystemExit(code)
"""


def start(*words: str, cwd: Path) -> tuple[int, str, set[str]]:
    """Start the command in a process; return its exit code, its errors, and the modules that it imported."""
    command = [sys.executable, "-c", _LISTING, *words]
    environment = os.environ | {"COLUMNS": "120"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr, set(done.stdout.rpartition("\nmodules ")[2].split())


def test_the_list_of_commands_imports_no_stage_and_no_library(tmp_path: Path) -> None:
    code, _, modules = start("--help", cwd=tmp_path)
    assert code == 0
    assert not modules & (LARGE | {"numpy", "pyarrow", "pydantic", "omegaconf", "rich", "yaml"})
    assert not [name for name in modules if name.endswith(".stage")]


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["pipeline", "--help"], 0, ""),
        (["pipeline", "--config", "recipe:demo", "inptu=x"], 64, "did you mean 'input'?"),
        (["train"], 64, "--config is missing"),
        (["train", "--config", "recipe:demo", "--step=3"], 64, "--step: no such option"),
        (["train", "--config", "nowhere.yaml"], 64, "nowhere.yaml: no such file"),
    ],
    ids=["help", "wrong key", "train without a file", "train with a wrong option", "train with a wrong file"],
)
def test_help_and_a_mistake_need_no_large_library(words: list[str], code: int, error: str, tmp_path: Path) -> None:
    found, said, modules = start(*words, cwd=tmp_path)
    assert (found, error in said) == (code, True)
    assert "pydantic" in modules, "the modules were listed"
    assert not modules & LARGE


def test_the_start_of_a_complete_pipeline_needs_no_large_library(tmp_path: Path) -> None:
    source, recipe = (
        write_corpus(tmp_path / "crawl", 25),
        write_recipe(tmp_path, RECIPE.partition("\n  - {name: span")[0]),
    )
    words = ["--config", str(recipe), f"input={source}", f"output={tmp_path / 'out'}"]
    assert main(words) == 0
    code, said, modules = start("pipeline", *words, cwd=tmp_path)
    assert (code, said.count("already complete")) == (0, 6)
    assert not modules & LARGE
