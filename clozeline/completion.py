"""Complete commands, recipes, options and keys in a shell: `eval "$(register-python-argcomplete clozeline)"`.

Names come from folders and from the text of files, so that a completion imports neither torch nor a command.
"""

import argparse
import ast
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from argcomplete import autocomplete
from argcomplete.completers import FilesCompleter

from clozeline import HOME

_RECIPES: Final = HOME / "configs" / "recipes"
_OPTION: Final = re.compile(r'add_argument\(\s*(?:"-\w", )?"(--[\w-]+)"')
_TRAINING: Final = HOME / "train" / "configuration" / "config.py"
_PIPELINE: Final = HOME / "pipeline" / "recipe.py"


def complete(files: Mapping[str, Path], stages: frozenset[str]) -> None:
    """Answer a shell that asks for completions, and exit; `files` are the modules of all commands by name."""
    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", "0"))]
    words = _split(line)
    autocomplete(build_parser(words[1] if len(words) > 1 else "", files, stages), always_complete_options=False)


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # an open quote
        return line.split()


def build_parser(command: str, files: Mapping[str, Path], stages: frozenset[str]) -> argparse.ArgumentParser:
    """Return a parser of the words of a command, with completers."""
    parser = argparse.ArgumentParser("clozeline", add_help=False)
    parser.add_argument("command", choices=sorted(files))
    file = files.get(command)
    kind = "train.yaml" if command == "train" else "pipeline.yaml"
    if command == "train":
        file = HOME / "train" / "command.py"
    elif command in stages:
        file = files["pipeline"]
    for option in sorted(options_of(file)) if file is not None else ():
        action = parser.add_argument(option)
        action.completer = _Configs(kind) if option == "--config" else FilesCompleter()  # type: ignore[attr-defined]
    if file is not None:
        words = parser.add_argument("words", nargs="+")
        words.completer = _Keys(file, command, stages)  # type: ignore[attr-defined]
    return parser


def options_of(file: Path) -> set[str]:
    """Return the options that the text of a command's file adds to its parser."""
    text = file.read_text(encoding="utf-8")
    if "add_detail_options(" in text:
        text += Path(__file__).with_name("command.py").read_text(encoding="utf-8")
    return {"--help", *_OPTION.findall(text)}


def recipes(kind: str) -> list[str]:
    """Return the recipes that come with Clozeline and have a file of this name."""
    return sorted(f"recipe:{path.parent.relative_to(_RECIPES)}" for path in _RECIPES.rglob(kind))


def keys_of_classes(file: Path, name: str | None = None) -> set[str]:
    """Return the dotted keys of the configuration classes in a file, or of one named class, from its source text.

    Keys below a key are those of classes in the same file.
    """
    nodes = [node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]
    classes = {
        node.name: node for node in nodes if any("config_class" in ast.unparse(word) for word in node.decorator_list)
    }

    def keys(node: ast.ClassDef, prefix: str) -> Iterator[str]:
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.target.id.islower():
                alias = re.search(r"alias='(\w+)'", kind := ast.unparse(item.annotation))
                key = f"{prefix}{alias[1] if alias else item.target.id}"
                yield key
                for inner in set(re.findall(r"\w+", kind)) & (classes.keys() - {node.name}):
                    yield from keys(classes[inner], f"{key}.")

    chosen = classes.values() if name is None else [classes[name]]
    return {key for node in chosen for key in keys(node, "")}


def keys_of_file(file: Path) -> set[str]:
    """Return the dotted keys of a YAML file; none if it cannot be read."""
    try:
        return set(_dotted(yaml.safe_load(file.read_text(encoding="utf-8"))))
    except (OSError, ValueError, yaml.YAMLError):
        return set()


def _dotted(value: Any, prefix: str = "") -> Iterator[str]:
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield f"{prefix}{key}"
        yield from _dotted(inner, f"{prefix}{key}.")


class _Configs:
    """Recipes and YAML files."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __call__(self, prefix: str, **_: object) -> list[str]:
        return [name for name in recipes(self._kind) if name.startswith(prefix)] + list(
            FilesCompleter(("yaml", "yml"))(prefix)
        )


class _Keys:
    """Keys of a command with `=`, files behind it."""

    def __init__(self, file: Path, command: str, stages: frozenset[str]) -> None:
        self._file, self._command, self._stages = file, command, stages

    def __call__(self, prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
        key, equals, value = prefix.partition("=")
        if equals:
            return [f"{key}={path}" for path in FilesCompleter()(value)]
        config = getattr(parsed_args, "config", None)
        keys = [f"{key}=" for key in sorted(self._known(config)) if key.startswith(prefix)]
        return keys or list(FilesCompleter()(prefix))

    def _known(self, config: str | None) -> set[str]:
        if self._command != "train" and self._command not in self._stages | {"pipeline"}:
            return keys_of_classes(self._file)
        kind, schema = ("train.yaml", _TRAINING) if self._command == "train" else ("pipeline.yaml", _PIPELINE)
        name = "TrainConfig" if self._command == "train" else "Recipe"
        named = config or "recipe:demo"
        path = _RECIPES / named.removeprefix("recipe:") / kind if named.startswith("recipe:") else Path(named)
        stages = {name.replace("-", "_") for name in self._stages} if kind == "pipeline.yaml" else set()
        return keys_of_classes(schema, name) | keys_of_file(path) | stages
