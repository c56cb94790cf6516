"""The command `clozeline`: the pipeline and its stages, the trainer and every tool as subcommands."""

from __future__ import annotations

import ast
import difflib
import os
import re
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path

from clozeline import HOME

__all__ = ["Command", "commands", "main"]

_USAGE = """usage: clozeline COMMAND [--config FILE] [key=value ...]; each COMMAND has --help
       --config recipe:NAME takes a recipe that comes with Clozeline: {recipes}
"""


@dataclass(frozen=True)
class Command:
    """A subcommand: the module that runs as `__main__`, and the file whose docstring says what it does."""

    module: str
    described: Path

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
        "all stages of a recipe": {"pipeline": Command("pipeline", pipeline / "__main__.py")},
        "one stage": {_dashed(name): Command(f"pipeline.{name}", file) for name, file in stages.items()},
        "training": {"train": Command("train.main", HOME / "train" / "main.py")},
        "tools": {_dashed(path.stem): Command(f"tools.{path.stem}", path) for path in scripts},
    }


def main() -> None:
    """Run the subcommand that the process was called with; ends with its exit code."""
    _only_our_folders()
    name, arguments = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("--help", [])
    if name in ("--help", "-h"):
        sys.stdout.write(_help())
    elif name == "where":
        _where(arguments)
    else:
        module = _module(name)
        sys.argv = [f"clozeline {_dashed(name)}", *arguments]
        runpy.run_module(module, run_name="__main__")


def _only_our_folders() -> None:
    """Keep the working directory out of the import path, here and in every process started from here."""
    if sys.path[1:2] and not sys.flags.safe_path and Path(sys.path[1] or ".").resolve() == Path.cwd():
        del sys.path[1]  # `python -m clozeline` put it there
    others = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HOME), *others])
    os.environ["PYTHONSAFEPATH"] = "1"


def _module(name: str) -> str:
    """Return the module of a subcommand; any other word is an error."""
    known = {key: command for group in commands().values() for key, command in group.items()}
    if _dashed(name) in known:
        return known[_dashed(name)].module
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'?" if near else "--help lists all"
    sys.stderr.write(f"error: no command '{name}'; {hint}\n")
    raise SystemExit(64)


def _where(arguments: list[str]) -> None:
    """Print the path of a file of Clozeline, for launchers that start a file: `deepspeed $(clozeline where ...)`."""
    path = HOME.joinpath(*arguments)
    if not path.exists():
        sys.stderr.write(f"error: {path}: no such file\n")
        raise SystemExit(64)
    sys.stdout.write(f"{path}\n")


def _help() -> str:
    from pipeline.execution.order import all_stages  # takes a second, which no other command needs

    place = {_dashed(name): number for number, name in enumerate(all_stages())}
    recipes = ", ".join(sorted(path.name for path in (HOME / "configs" / "recipes").iterdir() if path.is_dir()))
    lines = [_USAGE.format(recipes=recipes)]
    for heading, group in commands().items():
        ordered = sorted(group, key=lambda name: place.get(name, 0))
        lines += [f"{heading}:", *(f"  {name:<20}{group[name].summary}" for name in ordered), ""]
    lines += ["files:", f"  {'where [PATH]':<20}Print where a file of Clozeline is: clozeline where train/main.py", ""]
    return "\n".join(lines)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


if __name__ == "__main__":
    main()
