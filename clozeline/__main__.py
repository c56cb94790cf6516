"""The command `clozeline`: pipeline, stages, trainer and tools as subcommands."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # `python -m` puts the current folder first in the module path. Remove it, so that no file of
    # the user replaces a module of ours
    del sys.path[0]

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from clozeline import HOME
from clozeline.errors import message_text
from clozeline.extension_list import (
    explain_unused,
    find_extensions,
    list_extensions,
    refuse_twins,
)
from clozeline.foreign_code import import_module
from clozeline.pipeline import all_stages, hidden_stages, stage_file
from clozeline.process import guard_streams, shield_children

_USAGE = """usage: clozeline COMMAND [--config FILE] [key=value ...]
       clozeline help COMMAND, or clozeline COMMAND --help
       clozeline --version
       --config recipe:NAME takes a recipe that comes with Clozeline: {recipes}
"""
# Usage and summary of the commands that this module runs itself.
_BUILTIN_COMMANDS: Final = {
    "help [COMMAND]": "Show the help of a command, or this list",
    "where [PATH]": "Print the path of a file of Clozeline: clozeline where train/main.py",
}
# Heading in the help for each folder of `tools/`, in the order of the help.
_HEADINGS: Final = {
    "shards": "look at documents and shard sets, and repair them",
    "runs": "examine a trained model",
    "models": "extend and examine tokenizers",
}


@dataclass(frozen=True)
class Command:
    """A subcommand: the module that runs it, and the file whose docstring describes it."""

    module: str
    file: Path
    stage: str | None = None
    """the stage of the pipeline that it runs"""

    def run(self, arguments: list[str]) -> int:
        """Run it and return the exit code."""
        module = import_module(self.module)
        main: Callable[[list[str]], int] = (
            module.main if self.stage is None else partial(module.run_stage, self.stage)
        )
        return main(arguments)

    @property
    def summary(self) -> str:
        """Return the first line of the docstring, without the command and its name."""
        with self.file.open(encoding="utf-8", errors="replace") as text:
            return re.sub(r"^(`[^`]*`|\w+): |: `.*|\.$", "", text.readline().strip().strip('"'))


def commands() -> dict[str, dict[str, Command]]:
    """Return all subcommands by heading.

    Raises:
        ConfigurationError: two have one name.
    """
    recipe = "clozeline.pipeline.execution.recipe_command"
    stages = {_with_dashes(name): Command(recipe, stage_file(name), name) for name in all_stages()}

    folder = HOME / "pipeline" / "execution"
    external = "clozeline.pipeline.execution.executors.external"
    pipeline = {
        "pipeline": Command(recipe, folder / "recipe_command.py"),
        "work": Command(external, folder / "executors" / "external.py"),
    }
    groups = {
        "first steps": _tool_commands("start"),
        "from texts to shards": pipeline,
        "one stage of it": stages,
        "training": {"train": Command("clozeline.train.main", HOME / "train" / "main.py")},
        **{heading: _tool_commands(folder) for folder, heading in _HEADINGS.items()},
    }
    for each in list_extensions():
        if found := _list_commands(each.folder / "commands", f"{each.package}.commands"):
            groups[f"{each.name}: {each.summary.rstrip('.')}"] = found

    named = [pair for group in groups.values() for pair in group.items()]
    refuse_twins("command", named, lambda pair: (pair[0], pair[1].file))
    return groups


def _tool_commands(folder: str) -> dict[str, Command]:
    return _list_commands(HOME / "tools" / folder, f"clozeline.tools.{folder}")


def _list_commands(folder: Path, package: str) -> dict[str, Command]:
    paths = sorted(folder.glob("[!_]*.py"))
    return {_with_dashes(path.stem): Command(f"{package}.{path.stem}", path) for path in paths}


def start() -> int:
    """Run the subcommand as the main program, whose output streams may close at any time."""
    guard_streams()
    shield_children()
    try:
        return main()
    except Exception as error:  # of an extension: a command of ours explains its own errors
        from clozeline.repair import explain

        code, message = explain(error)
        if not message:
            raise
        sys.stderr.write(f"error: {message}\n")
        return code


def main() -> int:
    """Run the subcommand of `sys.argv` and return its exit code."""
    name, *arguments = sys.argv[1:] or ["--help"]
    for each in find_extensions().values():
        if each.problem:
            sys.stderr.write(f"warning: not used: extension {each.name}: {each.problem}\n")

    if name == "help":
        # `help COMMAND` is `COMMAND --help`
        is_general = arguments[:1] in ([], ["--help"])
        name, *arguments = ["--help"] if is_general else [arguments[0], "--help"]

    if name in ("--help", "-h"):
        sys.stdout.write(_help())
    elif name == "--version":
        from importlib.metadata import version  # takes a third of the time of `--help`

        sys.stdout.write(f"clozeline {version('clozeline')}\n")
    elif name in _builtin_usages() and arguments[:1] in (["--help"], ["-h"]):
        usage = _builtin_usages()[name]
        sys.stdout.write(f"usage: clozeline {usage}\n\n{_BUILTIN_COMMANDS[usage]}\n")
    elif name == "where":
        sys.stdout.write(f"{_find_path(arguments)}\n")
    else:
        known = {key: command for group in commands().values() for key, command in group.items()}
        dashed = _with_dashes(name)
        if dashed not in known:
            raise _usage_error(f"no command '{name}'; {_suggest_command(name, known)}")
        sys.argv = [f"clozeline {_with_dashes(name)}", *arguments]
        return known[dashed].run(arguments)

    return 0


def _find_path(parts: list[str]) -> Path:
    """Return a file or folder of Clozeline, for launchers: `deepspeed $(clozeline where ...)`."""
    path = HOME.joinpath(*(part.replace("recipe:", "configs/recipes/", 1) for part in parts))
    recipe = path.with_name(f"{path.name}.yaml")  # a recipe of one file
    if not (path.exists() or recipe.exists()):
        raise _usage_error(f"{path}: no such file")
    return path if path.exists() else recipe


def _suggest_command(name: str, known: Iterable[str]) -> str:
    # imported here because YAML takes a moment, and only mistakes need it
    from clozeline.configuration.words_elsewhere import translate_command

    if (translated := translate_command(name, [*known])) is not None:
        return translated
    word = name.replace("-", "_")
    for each in find_extensions().values():
        is_command = each.folder.joinpath("commands", f"{word}.py").is_file()
        if is_command or hidden_stages().get(word) == each.name:
            return f"it is of the extension {each.name}, not used: {explain_unused(each.name)}"
    near = difflib.get_close_matches(name, [*known, *_builtin_usages(), "--version"], n=1)
    return f"did you mean '{near[0]}'?" if near else "--help lists all"


def _builtin_usages() -> dict[str, str]:
    """Return the usage of each command of this module by its name."""
    return {words.partition(" ")[0]: words for words in _BUILTIN_COMMANDS}


def _usage_error(message: str) -> SystemExit:
    sys.stderr.write(message_text(f"error: {message}\n"))
    return SystemExit(64)


def _help() -> str:
    order = {_with_dashes(name): number for number, name in enumerate(all_stages())}
    folder = HOME / "configs" / "recipes"
    recipes = ", ".join(
        sorted(str(path.parent.relative_to(folder)) for path in folder.rglob("pipeline.yaml"))
    )
    lines = [_USAGE.format(recipes=recipes)]
    for heading, group in commands().items():
        shown = sorted(group, key=lambda name: (order.get(name, 0), name))
        lines += [f"{heading}:", *(f"  {name:<20}{group[name].summary}" for name in shown), ""]

    lines += [
        "about Clozeline:",
        *(f"  {words:<20}{summary}" for words, summary in _BUILTIN_COMMANDS.items()),
        "",
    ]

    return "\n".join(lines)


def _with_dashes(name: str) -> str:
    return name.replace("_", "-")


if __name__ == "__main__":
    raise SystemExit(start())
