"""The command `clozeline` and the package that holds the four others, in the repository."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from clozeline.__main__ import commands
from clozeline.extension_list import list_extensions
from clozeline.pipeline import all_stages

ROOT = Path(__file__).parents[2]


def clozeline(*words, cwd):
    command = [sys.executable, "-m", "clozeline", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_every_stage_and_every_tool_is_a_command_with_a_summary():
    groups = commands()

    assert {name.replace("-", "_") for name in groups["one stage of it"]} == set(all_stages())

    folders = [
        *(ROOT / "tools").iterdir(),
        *(each.folder / "commands" for each in list_extensions()),
    ]
    tools = {path.stem for folder in folders for path in folder.glob("[!_]*.py")}

    assert {command.file.stem for group in groups.values() for command in group.values()} >= tools

    names = [name for group in groups.values() for name in group] + ["where"]

    assert len(set(names)) == len(names)
    assert all(command.summary for group in groups.values() for command in group.values())


def test_help_lists_all(tmp_path):
    shown = clozeline("--help", cwd=tmp_path)

    assert shown.returncode == 0

    for group in commands().values():
        assert all(f"\n  {name} " in shown.stdout for name in group)

    assert clozeline(cwd=tmp_path).stdout == shown.stdout

    found = [shown.stdout.index(f"\n  {name.replace('_', '-')} ") for name in all_stages()]

    assert found == sorted(found), "stages are listed in the order they run"


def test_answers_of_the_command_itself(tmp_path):
    """It passes on the exit code of a command, as the installed script does."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    no_such = "error: no command 'inspect-shards'; did you mean 'inspect-shard'?\n"
    for words, code, out, error in (
        (["--version"], 0, f"clozeline {version}\n", ""),
        (["where", "train/main.py"], 0, f"{ROOT / 'train' / 'main.py'}\n", ""),
        (
            ["where", "recipe:tasks/cola"],
            0,
            f"{ROOT / 'configs' / 'recipes' / 'tasks' / 'cola.yaml'}\n",
            "",
        ),
        (["where", "no/such/file"], 64, "", "no/such/file"),
        (["inspect-shards"], 64, "", no_such),
        (["\x1b[31mx"], 64, "", r"'\x1b[31mx'"),
        (["where", "\x1b[31mx"], 64, "", r"\x1b[31mx"),
        (["pipeline", "--config", "recipe:demo"], 64, "", "no output folder"),
    ):
        done = clozeline(*words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (code, out)
        assert error in done.stderr


@pytest.mark.parametrize(
    "words", [["where", "train/main.py"], ["clean", "--config", "recipe:nothing"]]
)
def test_modules_of_the_user_do_not_hide_ours(tmp_path, words):
    for name in ("pipeline", "model", "train", "tools", "extensions"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    assert "the wrong module" not in clozeline(*words, cwd=tmp_path).stderr
