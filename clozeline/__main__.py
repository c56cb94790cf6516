"""The command `clozeline`: the pipeline and its stages, the trainer and every tool as subcommands."""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.metadata
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clozeline import HOME

_USAGE = """usage: clozeline COMMAND [--config FILE] [key=value ...]
       clozeline help COMMAND, or clozeline COMMAND --help
       clozeline --version
       --config recipe:NAME takes a recipe that comes with Clozeline: {recipes}
"""
_OWN: Final = {
    "help [COMMAND]": "Show the help of a command, or this list",
    "where [PATH]": "Print where a file of Clozeline is: clozeline where train/main.py",
}
"""Commands of this module: their words, and what they do."""


@dataclass(frozen=True)
class Command:
    """A subcommand: the module whose `main` runs it, and the file whose docstring says what it does."""

    module: str
    described: Path

    def run(self, arguments: list[str]) -> int:
        """Run it and return the exit code.

        The module is imported under its own name, which a type checker of values looks up when it resolves annotations.
        """
        code: int = importlib.import_module(self.module).main(arguments)
        return code

    @property
    def summary(self) -> str:
        """First line of the docstring, without the command and the name in it."""
        text = ast.get_docstring(ast.parse(self.described.read_text(encoding="utf-8"))) or ""
        return re.sub(r"^(`[^`]*`|\w+): |: `.*|\.$", "", text.partition("\n")[0])


def commands() -> dict[str, dict[str, Command]]:
    """Return all subcommands by heading, as the folders have them."""
    pipeline, tools = HOME / "pipeline", HOME / "tools"
    stages = {path.parent.name: path.with_name("stage.py") for path in sorted(pipeline.glob("*/__main__.py"))}
    scripts = [path for path in sorted(tools.glob("*.py")) if not path.name.startswith("_")]
    return {
        "all stages of a recipe": {"pipeline": Command("clozeline.pipeline.__main__", pipeline / "__main__.py")},
        "one stage": {_dashed(name): Command(f"pipeline.{name}.__main__", file) for name, file in stages.items()},
        "training": {"train": Command("clozeline.train.main", HOME / "train" / "main.py")},
        "tools": {_dashed(path.stem): Command(f"tools.{path.stem}", path) for path in scripts},
    }


def main() -> int:
    """Run the subcommand that the process was called with, and return its exit code."""
    _only_our_folders()
    name, arguments = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("--help", [])
    if name == "help":
        name, arguments = (arguments[0], ["--help"]) if arguments[:1] not in ([], ["--help"]) else ("--help", [])
    if name in ("--help", "-h"):
        sys.stdout.write(_help())
    elif name == "--version":
        sys.stdout.write(f"clozeline {importlib.metadata.version('clozeline')}\n")
    elif name in _own() and arguments[:1] in (["--help"], ["-h"]):
        sys.stdout.write(f"usage: clozeline {_own()[name]}\n\n{_OWN[_own()[name]]}\n")
    elif name == "where":
        _where(arguments)
    else:
        command = _command(name)
        sys.argv = [f"clozeline {_dashed(name)}", *arguments]
        return command.run(arguments)
    return 0


def _own() -> dict[str, str]:
    """Return the commands of this module by name, with their words."""
    return {words.partition(" ")[0]: words for words in _OWN}


def _only_our_folders() -> None:
    """Keep the working directory out of the import path, here and in every process started from here."""
    if sys.path[1:2] and not sys.flags.safe_path and Path(sys.path[1] or ".").resolve() == Path.cwd():
        del sys.path[1]  # `python -m clozeline` put it there
    others = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HOME), *others])
    os.environ["PYTHONSAFEPATH"] = "1"


def _command(name: str) -> Command:
    """Return a subcommand; any other word is an error."""
    known = {key: command for group in commands().values() for key, command in group.items()}
    if _dashed(name) in known:
        return known[_dashed(name)]
    near = difflib.get_close_matches(name, [*known, *_own(), "--version"], n=1)
    raise _refusal(f"no command '{name}'; " + (f"did you mean '{near[0]}'?" if near else "--help lists all"))


def _refusal(message: str) -> SystemExit:
    """Print a message for the user, and return the end of the process to raise."""
    sys.stderr.write(f"error: {message}\n")
    return SystemExit(64)


def _where(arguments: list[str]) -> None:
    """Print the path of a file of Clozeline, for launchers that start a file: `deepspeed $(clozeline where ...)`."""
    path = HOME.joinpath(*arguments)
    if not path.exists():
        raise _refusal(f"{path}: no such file")
    sys.stdout.write(f"{path}\n")


def _help() -> str:
    from clozeline.pipeline.execution.stage_order import all_stages  # takes a second, which no other command needs

    place = {_dashed(name): number for number, name in enumerate(all_stages())}
    folder = HOME / "configs" / "recipes"
    recipes = ", ".join(sorted(str(path.parent.relative_to(folder)) for path in folder.rglob("pipeline.yaml")))
    lines = [_USAGE.format(recipes=recipes)]
    for heading, group in commands().items():
        ordered = sorted(group, key=lambda name: place.get(name, 0))
        lines += [f"{heading}:", *(f"  {name:<20}{group[name].summary}" for name in ordered), ""]
    lines += ["about Clozeline:", *(f"  {words:<20}{summary}" for words, summary in _OWN.items()), ""]
    return "\n".join(lines)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


if __name__ == "__main__":
    raise SystemExit(main())
