"""What a start imports: help, a mistake and a complete pipeline need neither torch nor the other large libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clozeline.__main__ import commands
from clozeline.pipeline.execution.recipe_command import main
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe

LARGE = {"torch", "deepspeed", "transformers", "datatrove", "pandas", "scipy", "sklearn"}
WITH_TORCH = {
    *("train", "augment", "evaluate", "extract-features", "fill-mask", "generate", "predict", "prompt"),
    *("pseudo-label", "compare-logits", "compress", "export-model"),
    *("finetune", "forgetting", "race", "self-train", "setfit", "study"),
}
"""Commands whose help lists keys of models or trainings, or whose functions name tensors."""
_ALL_HELP = """
import sys
from clozeline.__main__ import commands
known = {name: command for group in commands().values() for name, command in group.items()}
for name in sys.argv[1:]:
    try:
        code = known[name].run(["--help"])
    except SystemExit as end:
        code = end.code
    if code or "torch" in sys.modules:
        raise SystemExit(f"{name}: exit code {code}, or torch is imported")
    print("\\nhelp of", name)
"""
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


def test_help_of_most_commands_needs_no_torch(tmp_path: Path) -> None:
    known = {name: command for group in commands().values() for name, command in group.items()}
    assert known.keys() > WITH_TORCH
    shown = sorted(known.keys() - WITH_TORCH)
    done = subprocess.run(
        [sys.executable, "-c", _ALL_HELP, *shown], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\nhelp of ") == len(shown)


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
