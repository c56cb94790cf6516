"""A command without its words names one command line that can be typed."""

import re
import shlex
from pathlib import Path

import pytest

from clozeline import command_line
from clozeline.__main__ import commands
from clozeline.errors import ConfigurationError
from clozeline.foreign_code import import_module

NEEDS_NONE = {"demo", "doctor", "lab", "show"}
COMMANDS = {
    name: command
    for group in commands().values()
    for name, command in group.items()
    if command.stage is None and name not in NEEDS_NONE
}
READ_WORDS = command_line.read_words


def main_of(name):
    command = COMMANDS[name]
    return import_module("clozeline.train.command" if name == "train" else command.module)


@pytest.fixture
def answer(monkeypatch, capsys, tmp_path):
    """`answer(name, *words)`: what a command says that reads its words, and does nothing."""

    def read(*given):
        options = READ_WORDS(*given)
        if given[1]:
            raise ConfigurationError("READ")
        return options

    def answer(name, *words):
        module = main_of(name)
        reader = (
            module if hasattr(module, "read_words") else import_module("clozeline.tools.command")
        )
        monkeypatch.setattr(reader, "read_words", read)
        assert module.main([*words]) == 64
        return capsys.readouterr().err

    monkeypatch.chdir(tmp_path)
    return answer


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_example_of_a_missing_word_is_read(name, answer):
    """Its paths are there, and the words of the example are all that the command needs."""
    module = main_of(name)
    said = answer(name)
    if ", as in: " not in said:  # words that exclude each other are asked for later
        said = f", as in: {command_line._EXAMPLE.search(module.__doc__)[0]};"
    (line,) = re.findall(r", as in: (clozeline .*?);? ?(?=;|$)", said)
    program, named, *words = shlex.split(line)
    assert (program, named) == ("clozeline", name)
    assert not re.search(r"\b[A-Z_]{2,}\b", line), line

    for word in words:
        key, _, value = word.rpartition("=")
        path = Path(value)
        if not path.suffix:
            path.mkdir(parents=True, exist_ok=key != "output")
            if key == "output":
                path.rmdir()
        elif key != "output":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
    assert "READ" in answer(name, *words)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_words_of_other_commands_are_answered(name, answer):
    """Each command answers with its own word, or that no word is needed."""
    plan, dry_run = answer(name, "--plan"), answer(name, "--dry-run")
    assert "no such" in dry_run or "'--dry-run'" in plan
    assert "no such" in plan or "'--plan'" in dry_run
    assert "start the same command again" in answer(name, "--resume")
    assert re.search("nothing is overwritten|--force STAGE", answer(name, "--force"))
