"""The shell's view of every tool: wrong use, sets without rows, and settings."""

import importlib
import os
import re
import subprocess
import sys
from dataclasses import field
from pathlib import Path
from typing import Annotated

import pytest

from clozeline.__main__ import commands
from clozeline.command_line import Positional, read_words
from clozeline.configuration.config import Names, config_class
from clozeline.errors import ConfigurationError
from clozeline.model.generation.decoding import Decoding
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tables import KeyedTexts
from clozeline.tools.command import OutputPath, UserPath
from tests.matrices import mark_slow_but
from tests.shard_sets import toy_set

ROOT = Path(__file__).parents[2]
KNOWN = {name: command for group in commands().values() for name, command in group.items()}
SCRIPTS = sorted(
    path
    for pattern in ("tools/*/[!_]*.py", "extensions/*/commands/[!_]*.py")
    for path in ROOT.glob(pattern)
    if path.stem.replace("_", "-") in KNOWN
)
TOOLS = [path.stem for path in SCRIPTS if "return run_tool(" in path.read_text(encoding="utf-8")]


def command_module(name):
    return importlib.import_module(KNOWN[name.replace("_", "-")].module)


@pytest.mark.parametrize("name", TOOLS)
def test_wrong_use_is_one_message(name, capsys):
    assert command_module(name).main(["--no-such-option"]) == 64
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.endswith("; see --help\n")


@pytest.mark.parametrize(
    "script", mark_slow_but(SCRIPTS[::20], SCRIPTS), ids=lambda path: path.stem
)
def test_each_command_runs_as_a_script(script, tmp_path):
    words = [sys.executable, str(script), "--help"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: {script.name}")


@config_class
class Tool(Decoding):
    """Options of a tool."""

    run: Annotated[UserPath, Positional(0)]
    output: Annotated[UserPath, Positional(1)]
    text: Names = field(default_factory=list)
    dry: bool = False


def test_an_argument_is_given_by_its_position_or_its_key():
    for words in (["a", "b"], ["a", "output=b"], ["--output", "b", "a"], ["output=b", "run=a"]):
        options = read_words(Tool, words)
        assert (options.run, options.output) == (Path("a"), Path("b"))


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--output", "out", "--dry", "--max-tokens", "5", "--text=a=b", "--mode=beam"],
        ["run", "output=out", "dry=true", "max_tokens=5", "text=a=b", "mode=beam"],
    ],
)
def test_keys_and_options_are_one_style(words):
    options = read_words(Tool, words)
    assert (options.run, options.output) == (Path("run"), Path("out"))
    assert (options.text, options.dry) == (["a=b"], True)
    assert (options.max_tokens, options.mode) == (5, "beam")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run"], "OUTPUT is missing; see --help"),
        (["run", "out", "--mode"], "--mode: expected a value, mode=..."),
        (["run", "out", "dry=maybe"], "dry: expected a valid boolean, got 'maybe'"),
        (["run", "", "text=a"], "OUTPUT: expected a path, got nothing"),
        (["run", "out", "mood=beam"], "unknown key 'mood'; did you mean 'mode'"),
        (["run", "out", "--moode"], "--moode: no such option; did you mean '--mode'"),
    ],
)
def test_what_is_wrong_is_named_as_it_is_written(words, said):
    with pytest.raises(ConfigurationError, match=said):
        read_words(Tool, words)


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


@config_class
class Copy:
    """A command that writes files of others."""

    input: UserPath | KeyedTexts | list[Path]
    output: OutputPath
    scores: OutputPath | None = None


def test_no_output_is_a_file_that_a_key_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data/raw").mkdir(parents=True)
    text = Path("data/raw/a.txt")
    text.touch()
    Path("link.txt").symlink_to(text)
    os.link(text, "hard.txt")
    Path("folder").symlink_to("data")
    spellings = [str(text), "data/../data/raw/a.txt", str(text.resolve()), "folder/raw/a.txt"]
    spellings += ["link.txt", "hard.txt"]
    Path("loop").symlink_to("loop")
    allowed = [
        [f"input={source}", f"output={output}"]
        for source, output in (("data/raw/a.txt", "data"), ("data", "data/b"), ("loop", "data"))
    ]

    for output in spellings:
        for given in (
            "data/raw/a.txt",
            "link.txt",
            "[b.txt, data/raw/a.txt]",
            "{path: hard.txt, text_key: a}",
        ):
            with pytest.raises(ConfigurationError, match="would overwrite what input names"):
                read_words(Copy, [f"input={given}", f"output={output}"])
    for words in (["output=data"], ["output=new", "scores=data/../new"]):
        with pytest.raises(ConfigurationError, match="would overwrite"):
            read_words(Copy, ["input=data", *words])
    for words in allowed:
        assert read_words(Copy, words).output.parts[0] == "data"


@pytest.mark.parametrize(
    "words",
    [
        line
        for line in (
            "predict RUN input=FILE output=FILE",
            "pseudo-label RUN input=FILE output=FILE",
            "pseudo-label RUN input=FILE.json output=FILE",
            "prompt RUN template=t.yaml input=FILE output=FILE",
            "prompt RUN template=t.yaml input=FILE predictions=FILE",
            "prompt RUN template=FILE input=a.csv predictions=FILE",
            "prompt RUN template=t.yaml input=a.csv answers=FILE predictions=FILE",
            "evaluate RUN perplexity=FILE output=FILE",
            "evaluate RUN perplexity=a.txt baseline=FILE output=FILE",
            "evaluate RUN suite=pairs input=FILE output=FILE",
            "fisher RUN data=FILE output=FILE",
            "finetune RUN task=labels train=a.csv dev=FILE output=FILE",
            "export-set FILE output=FILE format=hf",
            "shard-stats FILE html=FILE",
        )
        if line.split()[0] in KNOWN
    ],
)
def test_a_command_keeps_the_files_that_it_reads(words, tmp_path, capsys):
    for name in ("FILE", "FILE.json"):
        (tmp_path / name).write_text("text\n")
    name, *words = [word.replace("FILE", str(tmp_path / "FILE")) for word in words.split()]
    words = [word.replace("RUN", str(tmp_path)) for word in words]

    assert command_module(name).main(words) == 64
    assert re.search("would overwrite what|is not replaced", capsys.readouterr().err)
    assert {each.read_text() for each in tmp_path.iterdir()} == {"text\n"}
