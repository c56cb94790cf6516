"""What a start imports: help, a mistake and a complete pipeline need neither torch nor the other large libraries."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import unittest.mock
from collections.abc import Callable
from pathlib import Path

import pytest

from clozeline.__main__ import commands
from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError
from clozeline.pipeline import stage_module, stage_names
from clozeline.pipeline.execution.recipe_command import main
from clozeline.stand_ins import LIBRARIES
from clozeline.tools.command import require_model, require_run
from clozeline.train.command import main as train
from clozeline.train.configuration.config import TrainConfig
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe

ROOT = Path(__file__).parents[2]
LARGE = {"torch", "deepspeed", "transformers", "datatrove", "pandas", "scipy", "sklearn", "sacrebleu", "nltk"}
_ALL_HELP = """
import json, sys
from clozeline.stand_ins import StandIn, use_stand_ins
use_stand_ins()
from tests.clozeline.test_startup import NAMES, help_of
print(json.dumps({name: help_of(name) for name in NAMES}))
print(json.dumps([name for name, module in sys.modules.items() if not isinstance(module, StandIn)]))
"""
_LISTING = """
import os, sys, clozeline.__main__
os._exit = sys.exit  # the trainer's last call, which would skip the list
try:
    code = clozeline.__main__.start()
except SystemExit as end:
    code = end.code
from clozeline.stand_ins import StandIn
modules = [name for name, module in sys.modules.items() if not isinstance(module, StandIn)]
sys.stdout.write("\\nmodules " + " ".join(modules))
raise SystemExit(code)
"""
_EARLY = """
import json, sys
from clozeline.command import tell_early
from tests.clozeline.test_startup import Path, TrainConfig, load_config, mistake_in
print(json.dumps([mistake_in(tell_early, load_config, TrainConfig, Path(p), w) for p, w in json.loads(sys.argv[1])]))
"""
WITHOUT_A_FOLDER = (
    *("self-train nowhere task=sst2 train=a unlabeled=FILE dev=b output=o", "forgetting nowhere tasks=a.yaml output=o"),
    *("finetune nowhere task=sst2 train=a dev=b output=o", "pseudo-label nowhere input=FILE output=o"),
    *("predict nowhere input=FILE output=o", "explain-batch nowhere --step 1"),
    *("import-adapter o nowhere o", "export-adapter nowhere o", "study nowhere --output o", "where-is nowhere --url a"),
    *("fisher nowhere output=o", "export-model nowhere o", "import-model nowhere o"),
    *("generate nowhere text", "inspect-shard nowhere", "shard-stats nowhere", "fill-mask nowhere", "evaluate nowhere"),
)
"""Mistakes that are told after an unknown option and an unknown key."""
NAMES = sorted(name for group in commands().values() for name in group)


def help_of(name: str) -> str:
    """Return what a command prints as its help."""
    known = {name: command for group in commands().values() for name, command in group.items()}
    run = train if name == "train" else known[name].run  # `train` would end the process
    printed = io.StringIO()
    argv = unittest.mock.patch.object(sys, "argv", [f"clozeline {name}", "--help"])
    environment = unittest.mock.patch.dict(os.environ, {"COLUMNS": "120"})
    with argv, environment, contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        assert run(["--help"]) == 0
    return printed.getvalue()


def mistake_in(check: Callable[..., object], *arguments: object) -> str | None:
    try:
        check(*arguments)
    except ConfigurationError as error:
        return str(error)
    return None


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


def test_help_of_the_pipeline_needs_no_algorithm_that_is_a_default_and_no_numpy(tmp_path: Path) -> None:
    code, _, modules = start("pipeline", "--help", cwd=tmp_path)
    assert code == 0
    assert {"pydantic", "clozeline.pipeline.clean.config"} <= modules, "the modules were listed"
    assert not modules & {"numpy", "rich.console", "psutil", "multiprocessing"}
    algorithms = ("clean.filters", "clean.extractors", "clean.languages", "text.sentences", "corrupt.objectives")
    loaded = [name for name in modules if name.startswith(tuple(f"clozeline.pipeline.{room}." for room in algorithms))]
    assert loaded == ["clozeline.pipeline.clean.languages._identifier"]  # holds options that all identifiers share


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["pipeline", "--help"], 0, ""),
        (["train", "--help"], 0, ""),
        (["pipeline", "--config", "recipe:demo", "inptu=x"], 64, "did you mean 'input'?"),
        (["train", "--config", "recipe:demo", "stepz=3"], 64, "did you mean 'steps'?"),
        (["train", "--config", "recipe:demo", "zero.stag=3", "optimizer=lion"], 64, "did you mean 'zero.stage'?"),
        (["train", "--config", "recipe:demo", "model.dimm=3", "optimizer.lr_=1"], 64, "did you mean 'model.dim'?"),
        (["train"], 64, "--config is missing"),
        (["train", "--config", "recipe:demo", "--step=3"], 64, "--step: no such option"),
        (["train", "--config", "nowhere.yaml"], 64, "nowhere.yaml: no such file"),
    ],
)
def test_help_and_a_mistake_need_no_large_library(words: list[str], code: int, error: str, tmp_path: Path) -> None:
    found, said, modules = start(*words, cwd=tmp_path)
    assert (found, error in said) == (code, True)
    assert "pydantic" in modules, "the modules were listed"
    assert not modules & LARGE


@pytest.mark.parametrize("line", WITHOUT_A_FOLDER)
def test_a_missing_folder_is_told_without_a_large_library(line: str, tmp_path: Path) -> None:
    code, said, modules = start(*line.replace("FILE", __file__).split(), cwd=tmp_path)
    assert (code in (64, 74), "nowhere" in said) == (True, True), said
    assert ("pydantic" in modules, modules & LARGE) == (True, set())


def test_a_missing_folder_is_told_as_by_the_complete_check(tmp_path: Path) -> None:
    from clozeline.model.checkpoints import read_checkpoint  # these import torch
    from clozeline.train.checkpoint.run_weights import find_checkpoint

    for early, complete in ((require_run, find_checkpoint), (require_model, read_checkpoint)):
        assert mistake_in(early, tmp_path / "new") == mistake_in(complete, tmp_path / "new") is not None


def test_mistakes_of_a_training_are_told_as_by_the_complete_check(tmp_path: Path) -> None:
    from tests.model.checkpoints.published import saved  # imports torch

    saved(tmp_path, "bert")
    words = [[], ["steps=abc", "optimizer.eps_=1", "model.dimm=3"], ["precision=bf16", "zero.stage=0"]]
    paths = sorted((ROOT / "configs" / "recipes").rglob("train*.yaml"))
    starts = [(str(path), ["output=new", "data.shards=set", *own]) for path in paths for own in words]
    starts.append((str(paths[0]), ["model=null", f"model.init_from={tmp_path}", "output=new", "data.shards=set"]))
    (tmp_path / "torch.py").write_text("raise ImportError")
    command, env = [sys.executable, "-c", _EARLY, json.dumps(starts)], os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=True)
    complete = [mistake_in(load_config, TrainConfig, Path(path), own) for path, own in starts]
    assert json.loads(done.stdout) == complete
    assert {complete[0], complete[-1]} == {None}


def test_a_wrong_key_of_a_recipe_is_found_without_its_stages(tmp_path: Path) -> None:
    code, said, modules = start("pipeline", "--config", "recipe:demo", "inptu=x", cwd=tmp_path)
    assert (code, "did you mean 'input'?" in said) == (64, True)
    assert "clozeline.pipeline.dedup.config" in modules
    assert not modules & {"pyarrow", *map(stage_module, stage_names())}


def test_help_is_the_same_without_the_large_libraries() -> None:
    done = subprocess.run([sys.executable, "-c", _ALL_HELP], cwd=ROOT, capture_output=True, text=True, check=True)
    shown, modules = map(json.loads, done.stdout.splitlines())
    assert not LARGE.union(LIBRARIES).intersection(modules)
    assert {name: text for name, text in shown.items() if text != help_of(name)} == {}
    assert [name for name, text in shown.items() if not text.startswith("usage: ")] == []


def test_other_starts_have_no_stand_ins(tmp_path: Path) -> None:
    _, _, modules = start("show", "nowhere", cwd=tmp_path)
    assert "pyarrow" in modules


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
