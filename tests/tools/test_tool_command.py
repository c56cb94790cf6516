"""The shell's view of every tool: help, wrong use, and a reader that goes away."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.small_run import example_sets
from tools.command import Arguments

ROOT = Path(__file__).parents[2]
TOOLS = sorted(
    path.stem for path in (ROOT / "tools").glob("*.py") if "return run_tool(parser" in path.read_text(encoding="utf-8")
)


def test_the_shard_tools_are_all_here():
    assert {"shard_stats", "diff_manifests", "repack_shards", "merge_manifests", "export_webdataset"} < set(TOOLS)
    assert {"explain_batch", "where_is", "validate_shards", "inspect_shard"} < set(TOOLS)


@pytest.mark.parametrize("name", TOOLS)
def test_help_and_wrong_use(name, capsys):
    module = importlib.import_module(f"tools.{name}")
    with pytest.raises(SystemExit) as ended:
        module.main(["--help"])
    assert ended.value.code == 0
    assert f"python tools/{name}.py" in capsys.readouterr().out
    assert module.main(["--no-such-option"]) == 64
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.endswith("; see --help\n")


def test_every_argument_is_explained():
    parser = Arguments("text")
    assert parser.description == "text"
    for name in TOOLS:
        source = (ROOT / "tools" / f"{name}.py").read_text(encoding="utf-8")
        assert source.count("add_argument(") == source.count("help="), name


def test_a_reader_that_has_seen_enough_is_no_mistake(shard_sets):
    manifest = str(example_sets(shard_sets)["bart"][0])
    command = [sys.executable, "tools/explain_batch.py", manifest, "--step", "1"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()  # type: ignore[union-attr]
        assert process.stderr.read() == b""  # type: ignore[union-attr]
    assert process.returncode == 0
