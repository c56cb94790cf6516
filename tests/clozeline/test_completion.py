"""Completions of a command line, as a shell asks for them; nothing heavy is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clozeline.__main__ import commands
from clozeline.completion import keys_of_classes, keys_of_file, options_of, recipes
from clozeline.configuration.schema import describe
from clozeline.pipeline.recipe import Recipe
from clozeline.train.configuration.config import TrainConfig

ROOT = Path(__file__).parents[2]
ASKED = "import sys; sys.argv = ['clozeline']; from clozeline.__main__ import main; main()"


def completions(line: str, folder: Path, program: str = ASKED) -> list[str]:
    """Return what a shell is offered at the end of a line."""
    answer = folder / "answer"
    environment = {
        **os.environ, "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9",
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment, check=False, timeout=120)
    assert done.returncode == 0
    return [word.strip() for word in answer.read_text(encoding="utf-8").split("\n") if word]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("clozeline insp", ["inspect-shard"]),
        ("clozeline pipeline --config recipe:dem", ["recipe:demo"]),
        ("clozeline pipeline --config recipe:demo heldout.", ["heldout.fraction="]),
        ("clozeline train --config recipe:demo checkpoint.keep_l", ["checkpoint.keep_last="]),
        ("clozeline clean --verb", ["--verbose"]),
        ("clozeline show masked_lm tok", ["tokenizer="]),
        ("clozeline clean input=te", ["input=texts/"]),
    ],
)
def test_a_shell_is_offered(tmp_path: Path, line: str, offered: list[str]) -> None:
    (tmp_path / "texts").mkdir()
    assert sorted(completions(line, tmp_path)) == offered


def test_all_commands_of_the_list_are_offered(tmp_path: Path) -> None:
    shown = {name for group in commands().values() for name in group} - {"make-gallery"}
    assert set(completions("clozeline ", tmp_path)) == shown


def test_a_completion_imports_no_torch(tmp_path: Path) -> None:
    """The program ends by `os._exit`, so that the modules are looked at there."""
    look = (
        "import os, sys; leave = os._exit\n"
        "def end(code):\n"
        "    heavy = {'torch', 'numpy', 'pydantic', 'omegaconf'} & sys.modules.keys()\n"
        "    leave(1 if heavy else code)\n"
        "os._exit = end\n"
    )
    completions("clozeline train --config recipe:demo st", tmp_path, look + ASKED)


@pytest.mark.parametrize(
    ("schema", "file"), [(Recipe, "pipeline/recipe.py"), (TrainConfig, "train/configuration/config.py")]
)
def test_keys_of_a_text_are_keys_of_the_class(schema: type, file: str) -> None:
    known = {key for key, *_ in describe(schema)}
    found = keys_of_classes(ROOT / file, schema.__name__)
    top = {key.partition(".")[0] for key in known}
    assert found >= {"output", "seed"}
    assert {key.partition(".")[0] for key in found} <= top
    assert len(found & known) > len(found) // 2


def test_options_recipes_and_keys_of_files(tmp_path: Path) -> None:
    assert "--html" in options_of(ROOT / "tools" / "shards" / "inspect_shard.py")
    assert "recipe:tasks/sst2" in recipes("train.yaml")
    (tmp_path / "a.yaml").write_text("a: {b: 1}\nc: [x]\n")
    assert keys_of_file(tmp_path / "a.yaml") == {"a", "a.b", "c"}
    assert keys_of_file(tmp_path / "none.yaml") == set()
