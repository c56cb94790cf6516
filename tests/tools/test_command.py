"""The shell's view of every tool: wrong use, sets without rows, and settings."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from clozeline.__main__ import commands
from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import open_shards
from clozeline.tools.command import IntermixedArguments, add_settings, settings_of
from clozeline.tools.runs.inference.generation import Settings
from tests.shard_sets import toy_set

ROOT = Path(__file__).parents[2]
TOOLS = sorted(
    path.stem
    for path in (ROOT / "tools").glob("*/*.py")
    if "return run_tool(parser" in path.read_text(encoding="utf-8")
)


def command_module(name):
    known = {key: command for group in commands().values() for key, command in group.items()}
    return importlib.import_module(known[name.replace("_", "-")].module)


@pytest.mark.parametrize("name", TOOLS)
def test_wrong_use_is_one_message(name, capsys):
    assert command_module(name).main(["--no-such-option"]) == 64
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.endswith("; see --help\n")


SCRIPTS = sorted(path for path in (ROOT / "tools").glob("*/[!_]*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_each_command_runs_as_a_script(script, tmp_path):
    words = [sys.executable, str(script), "--help"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: {script.name}")


def test_a_script_prints_what_its_command_prints(tmp_path):
    folder = str(toy_set(tmp_path / "set", [3, 2]).path)
    script = [
        sys.executable,
        str(ROOT / "tools" / "shards" / "inspect_shard.py"),
        folder,
        "sample=4",
    ]
    command = [sys.executable, "-m", "clozeline", "inspect-shard", folder, "sample=4"]
    printed = [
        subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        for words in (script, command)
    ]
    assert [each.returncode for each in printed] == [0, 0]
    assert printed[0].stdout == printed[1].stdout
    assert "row 4" in printed[0].stdout


def test_a_script_hides_no_library(tmp_path):
    """`tools/runs/evaluate.py` and the library `evaluate` have one name.

    The harness imports the library.
    """
    (tmp_path / "evaluate.py").write_text("CASES = 7\n")
    probe = tmp_path / "probe.py"
    probe.write_text(
        "import runpy, sys\n"
        f"sys.path[0] = {str(ROOT / 'tools' / 'runs')!r}\n"
        f"sys.path.append({str(tmp_path)!r})\n"
        "sys.argv = ['evaluate.py', '--help']\n"
        "try:\n"
        f"    runpy.run_path({str(ROOT / 'tools' / 'runs' / 'evaluate.py')!r}, "
        "run_name='__main__')\n"
        "except SystemExit:\n"
        "    import evaluate\n"
        "    print(evaluate.CASES)\n"
    )
    done = subprocess.run([sys.executable, str(probe)], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("7\n")


def test_a_key_in_place_of_a_folder_is_told(tmp_path, capsys):
    assert command_module("export_model").main([str(tmp_path), "output=exported"]) == 64
    assert "write it without `output=`" in capsys.readouterr().err


@pytest.fixture
def parser():
    parser = IntermixedArguments("")
    parser.add_argument("run")
    parser.add_argument("--output", required=True)
    parser.add_argument("--text", action="append")
    parser.add_argument("--dry", action="store_true")
    add_settings(parser, Settings)
    return parser


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--output", "out", "--dry", "--max-tokens", "5", "--text=a=b", "--mode=beam"],
        ["run", "output=out", "dry=true", "max_tokens=5", "text=a=b", "mode=beam"],
        ["--max_tokens=5", "--mode", "beam", "run", "--text", "a=b", "output=out", "--dry"],
    ],
)
def test_keys_and_options_are_one_style(parser, words):
    options = parser.parse_args(words)
    assert (options.run, options.output, options.text, options.dry) == ("run", "out", ["a=b"], True)
    settings = settings_of(Settings, options.overrides)
    assert (settings.max_tokens, settings.mode) == (5, "beam")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run"], "required: output;"),
        (["run", "output=x", "--mode"], "mode=VALUE"),
        (["run", "output=x", "dry=maybe"], "dry: expected true or false"),
    ],
)
def test_what_is_missing_is_named_as_it_is_written(parser, words, said):
    with pytest.raises(ConfigurationError, match=said):
        parser.parse_args(words)


@pytest.mark.parametrize("sizes", [[], [0, 0], [0, 5, 0]])
def test_sets_with_few_rows_or_none_are_no_mistake(tmp_path, sizes, capsys):
    folder = str(toy_set(tmp_path / "set", sizes).path)
    for name, *arguments in (
        ["shard_stats", "--html", str(tmp_path / "page.html")],
        ["repack_shards", "--container", "tar", "--output", str(tmp_path / "tar")],
    ):
        assert command_module(name).main([folder, *arguments]) == 0
    assert len(open_shards(tmp_path / "tar", verify="shard")) == sum(sizes)
    assert (
        capsys.readouterr().err
        == f"note: no tokenizer above {folder}: ids are shown; tokenizer=DIR names its folder\n"
    )
