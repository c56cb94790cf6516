"""The shell's view of every tool: help, wrong use, and a reader that goes away."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from clozeline.pipeline.shards import open_shards
from clozeline.tools.command import Arguments
from tests.commands import command_module
from tests.shard_sets import toy_set
from tests.tools.small_run import example_sets

ROOT = Path(__file__).parents[2]
TOOLS = sorted(
    path.stem
    for path in (ROOT / "tools").glob("*/*.py")
    if "return run_tool(parser" in path.read_text(encoding="utf-8")
)


def test_the_shard_tools_are_all_here():
    assert {"shard_stats", "repack_shards", "export_webdataset"} < set(TOOLS)
    assert {"explain_batch", "where_is", "validate_shards", "inspect_shard"} < set(TOOLS)


@pytest.mark.parametrize("name", TOOLS)
def test_help_and_wrong_use(name, capsys):
    module = command_module(name)
    with pytest.raises(SystemExit) as ended:
        module.main(["--help"])
    assert ended.value.code == 0
    assert f"clozeline {name.replace('_', '-')}" in capsys.readouterr().out
    assert module.main(["--no-such-option"]) == 64
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.endswith("; see --help\n")


def test_an_interrupt_and_a_full_disk_end_in_one_line(tmp_path, capsys, monkeypatch):
    folder = str(toy_set(tmp_path / "set", [4]).path)
    module = importlib.import_module("clozeline.tools.shards.shard_stats")
    for error, code, line in (
        (KeyboardInterrupt(), 130, "interrupted: run the same command again\n"),
        (OSError(28, "No space left on device"), 74, "error: No space left on device\n"),
    ):

        def fail(*_, error=error):
            raise error

        monkeypatch.setattr(module, "open_shards", fail)
        assert module.main([folder]) == code
        assert capsys.readouterr().err == line


def test_every_argument_is_explained():
    parser = Arguments("text")
    assert parser.description == "text"
    for name in TOOLS:
        source = Path(str(command_module(name).__file__)).read_text(encoding="utf-8")
        assert source.count("add_argument(") == source.count("help="), name


@pytest.mark.parametrize("command", [["explain_batch", "SET", "--step", "1"], ["shard_stats", "SET"]])
def test_a_reader_that_has_seen_enough_gets_no_message(shard_sets, command):
    """The code says that the result is cut off, as that of a program that SIGPIPE ends."""
    name, *words = (str(example_sets(shard_sets)["bart"][0]) if word == "SET" else word for word in command)
    command = [sys.executable, "-m", "clozeline", name, *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()  # type: ignore[union-attr]
        assert process.stderr.read() == b""  # type: ignore[union-attr]
    assert process.returncode == 141


@pytest.mark.parametrize("sizes", [[], [0, 0], [0, 5, 0]])
def test_sets_with_few_rows_or_none_are_no_mistake(tmp_path, sizes, capsys):
    folder = str(toy_set(tmp_path / "set", sizes).path)
    for name, *arguments in (
        ["shard_stats", "--html", str(tmp_path / "page.html")],
        ["repack_shards", "--container", "tar", "--output", str(tmp_path / "tar")],
        ["export_webdataset", "--output", str(tmp_path / "export")],
    ):
        assert command_module(name).main([folder, *arguments]) == 0
    assert len(open_shards(tmp_path / "tar", verify="shard")) == sum(sizes)
    assert (
        capsys.readouterr().err == f"note: no tokenizer above {folder}: ids are shown; --tokenizer names its folder\n"
    )
