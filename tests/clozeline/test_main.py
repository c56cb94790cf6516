"""The command `clozeline` and the package that holds the four others, in the repository."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from clozeline.__main__ import commands
from clozeline.pipeline.execution.stage_order import all_stages

ROOT = Path(__file__).parents[2]


def clozeline(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "clozeline", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_every_stage_and_every_tool_is_a_command_with_a_summary() -> None:
    groups = commands()
    assert {name.replace("-", "_") for name in groups["one stage"]} == set(all_stages())
    tools = {path.stem for path in (ROOT / "tools").glob("*.py")} - {"__init__"}
    assert {name.replace("-", "_") for name in groups["tools"]} == tools
    names = [name for group in groups.values() for name in group] + ["where"]
    assert len(set(names)) == len(names)
    assert all(command.summary for group in groups.values() for command in group.values())


def test_help_lists_all(tmp_path: Path) -> None:
    shown = clozeline("--help", cwd=tmp_path)
    assert shown.returncode == 0
    for group in commands().values():
        assert all(f"\n  {name} " in shown.stdout for name in group)
    assert clozeline(cwd=tmp_path).stdout == shown.stdout
    found = [shown.stdout.index(f"\n  {name.replace('_', '-')} ") for name in all_stages()]
    assert found == sorted(found), "stages are listed in the order they run"


def test_version_is_that_of_the_distribution(tmp_path: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert clozeline("--version", cwd=tmp_path).stdout == f"clozeline {version}\n"


def test_the_word_help_shows_the_help_of_a_command(tmp_path: Path) -> None:
    assert clozeline("help", cwd=tmp_path).stdout == clozeline("--help", cwd=tmp_path).stdout
    shown = clozeline("help", "where_is", cwd=tmp_path).stdout
    assert shown.startswith("usage: clozeline where-is ")
    assert shown == clozeline("where-is", "--help", cwd=tmp_path).stdout
    assert clozeline("help", "where", cwd=tmp_path).stdout.startswith("usage: clozeline where [PATH]\n")
    unknown = clozeline("help", "trian", cwd=tmp_path)
    assert (unknown.returncode, unknown.stderr) == (64, "error: no command 'trian'; did you mean 'train'?\n")


def test_a_name_may_have_dashes_or_underscores(tmp_path: Path) -> None:
    for name in ("inspect-shard", "inspect_shard"):
        assert clozeline(name, "--help", cwd=tmp_path).stdout.startswith("usage: clozeline inspect-shard ")


def test_wrong_use(tmp_path: Path) -> None:
    unknown = clozeline("inspect-shards", cwd=tmp_path)
    assert (unknown.returncode, unknown.stderr) == (
        64, "error: no command 'inspect-shards'; did you mean 'inspect-shard'?\n"
    )  # fmt: skip
    assert clozeline("where", "no/such/file", cwd=tmp_path).returncode == 64


def test_the_module_passes_on_the_exit_code_of_a_command(tmp_path: Path) -> None:
    """As the installed script does."""
    done = clozeline("pipeline", "--config", "recipe:demo", cwd=tmp_path)
    assert (done.returncode, "no output folder" in done.stderr) == (64, True)


def test_where_names_files_of_clozeline(tmp_path: Path) -> None:
    assert clozeline("where", "train/main.py", cwd=tmp_path).stdout == f"{ROOT / 'train' / 'main.py'}\n"
    assert clozeline("where", cwd=tmp_path).stdout == f"{ROOT}\n"


@pytest.mark.parametrize("words", [["where", "train/main.py"], ["clean", "--config", "recipe:nothing"]])
def test_modules_of_the_user_do_not_hide_ours(tmp_path: Path, words: list[str]) -> None:
    for name in ("pipeline", "model", "train", "tools"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n", encoding="utf-8")
    assert "the wrong module" not in clozeline(*words, cwd=tmp_path).stderr


def test_a_module_that_is_loaded_already_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("", encoding="utf-8")
    code = "import train, clozeline"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"ImportError: {tmp_path / 'train.py'} hides {ROOT / 'train'}" in done.stderr


def test_importing_the_package_puts_ours_first(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit('the wrong module')\n", encoding="utf-8")
    code = "import clozeline, train; print(train.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"{ROOT / 'train' / '__init__.py'}\n"


def test_the_repositorys_command_names_the_files_that_hide_ours(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipeline", "--config", "recipe:nothing"]
    (tmp_path / "train.py").write_text("raise SystemExit('the wrong module')\n", encoding="utf-8")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr.startswith(f"note: {tmp_path / 'train.py'} hides {ROOT / 'train'} in programs started here")
    assert done.returncode == 64
    assert "note" not in clozeline("pipeline", "--config", "recipe:nothing", cwd=tmp_path).stderr


@pytest.mark.parametrize("name", ["pipeline", "clean", "train", "crawl-site"])
def test_help_names_the_command_that_was_called(tmp_path: Path, name: str) -> None:
    assert clozeline(name, "--help", cwd=tmp_path).stdout.startswith(f"usage: clozeline {name} ")
