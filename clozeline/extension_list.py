"""Extensions: packages that add algorithms, stages, configuration keys and commands.

Ours are the folders of `extensions/`. An installed distribution announces its own by an entry
point, and has the same form:

    [project.entry-points."clozeline.extensions"]
    mylab = "mylab"

A package has a folder for each registry that it adds to, named by the address of the registry
(`filters/`, `ingest/readers/`), a folder with `stage.py` for each stage, and `commands/`. Its
`__init__.py` begins with one sentence, and may declare `NEEDS`, the extensions that it imports, and
`PARTS` of configuration files, with keys that tell them. All of this is read without importing it.
An extension whose files cannot be read so has a `problem`, and is not used.
`words_elsewhere.yaml` has what other programs call its keys and commands.

The variable `CLOZELINE_HIDE` hides extensions: names by commas, or `all`. Processes started from
here inherit it. An extension that needs a hidden one is hidden, too.
"""

import ast
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeVar

from clozeline import HOME
from clozeline.errors import ConfigurationError

HIDE: Final = "CLOZELINE_HIDE"
"""Environment variable with the names of extensions that are not used."""
_GROUP: Final = "clozeline.extensions"

Found = TypeVar("Found")


@dataclass(frozen=True)
class Extension:
    """A package that adds to Clozeline."""

    name: str
    package: str
    """name by which it is imported"""
    folder: Path
    distribution: str
    """name of what was installed with it"""
    stages: Mapping[Path, Mapping[str, Any]] = field(compare=False)
    """files of its stages, with what `read_stage` says of each"""
    summary: str = ""
    """what it adds, in one sentence"""
    needs: tuple[str, ...] = ()
    """names of the extensions that it imports"""
    parts: Mapping[str, set[str]] = field(default_factory=dict, compare=False)
    """parts of configuration files, and the keys by which each is known"""
    problem: str = ""
    """why it cannot be used, with the file; "" if it can"""


def _read_extension(name: str, package: str, folder: Path, distribution: str) -> Extension:
    """Return an extension without importing it; `problem` is what is wrong with a file."""
    file = folder / "__init__.py"
    stages: dict[Path, Mapping[str, Any]] = {}
    known = partial(Extension, name, package, folder, distribution, stages)
    try:
        for file in sorted(folder.rglob("stage.py")):
            stages[file] = read_stage(file)
        file = folder / "__init__.py"
        tree = ast.parse(file.read_bytes())
        found = read_literals(tree.body)
        return known(
            (ast.get_docstring(tree) or "").partition("\n")[0],
            _take_names(found, "NEEDS"),
            {part: {*keys} for part, keys in dict(found.get("PARTS", {})).items()},
        )
    except Exception as error:  # a file may hold anything
        return known(problem=f"{file}: {type(error).__name__}: {error}")


def read_stage(file: Path) -> Mapping[str, Any]:
    """Return the `name` of a stage, and those `after` and `before` which it runs, by their keys.

    Raises:
        KeyError, SyntaxError, TypeError, ValueError: the file does not say it.
    """
    for node in ast.parse(file.read_bytes()).body:
        if isinstance(node, ast.ClassDef) and node.name.endswith("Stage"):
            found = read_literals(node.body)
            near = {key: _take_names(found, key) for key in ("after", "before")}
            return {"name": str(found["name"]), **near}
    raise ValueError("expected a class whose name ends in Stage, found none")


def _take_names(found: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = found.get(key, ())
    if isinstance(names, tuple | list):
        return tuple(map(str, names))
    raise TypeError(f'{key}: expected names, such as ("one", "two"), got {names!r}')


def read_literals(body: Iterable[ast.stmt]) -> dict[str, Any]:
    """Return the literal values that statements of a module or class assign, by name."""
    found = {}
    for node in body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.expr() as value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                with suppress(ValueError):  # no literal
                    found[name] = ast.literal_eval(value)
    return found


def list_extensions() -> tuple[Extension, ...]:
    """Return the extensions that can be used and are not hidden, sorted by name.

    Raises:
        ConfigurationError: two have one name, or an unknown one is to be hidden.
    """
    return _list_extensions(os.environ.get(HIDE, ""))


@cache
def find_extensions() -> Mapping[str, Extension]:
    """Return all extensions that are there, hidden ones, too, by their names, sorted.

    Raises:
        ConfigurationError: two have one name.
    """
    folders = [path.parent for path in (HOME / "extensions").glob("*/__init__.py")]
    ours = [
        _read_extension(each.name, f"clozeline.extensions.{each.name}", each, "clozeline")
        for each in folders
    ]
    found = sorted(
        (*ours, *map(_find_installed, entry_points(group=_GROUP))), key=attrgetter("name")
    )
    return refuse_twins("extension", found, lambda each: (each.name, each.distribution))


@cache
def _list_extensions(hide: str) -> tuple[Extension, ...]:
    known = find_extensions()
    hidden = set(filter(None, hide.split(",")))
    if unknown := sorted(hidden - {*known, "all"}):
        raise ConfigurationError(
            f"{HIDE}: no extension '{unknown[0]}'; known: {', '.join(known)}, all"
        )
    shown = {
        name: each
        for name, each in known.items()
        if hidden.isdisjoint((name, "all")) and not each.problem
    }
    while lacking := [name for name, each in shown.items() if not shown.keys() >= {*each.needs}]:
        for name in lacking:
            del shown[name]
    return tuple(shown.values())


def explain_unused(name: str) -> str:
    """Return why an extension is not used, and what to do; "" if it is used."""
    used = {each.name for each in list_extensions()}
    each = find_extensions()[name]
    if name in used:
        return ""
    if each.problem:
        return f"{each.problem}; repair it, or uninstall {each.distribution}"
    lacking = ", ".join(need for need in each.needs if need not in used)
    return f"it needs {lacking}" if lacking else f"{HIDE} hides it: leave it out there"


def _find_installed(entry: EntryPoint) -> Extension:
    distribution = entry.dist.name if entry.dist else ""
    top, *below = entry.value.split(".")
    spec = find_spec(top)  # of a package in it, Python would import the upper one
    if spec is None or not spec.submodule_search_locations:
        problem = f"no package '{entry.value}'"
        return Extension(
            entry.name, entry.value, Path(os.devnull), distribution, {}, problem=problem
        )
    folder = Path(spec.submodule_search_locations[0], *below)
    return _read_extension(entry.name, entry.value, folder, distribution)


def refuse_twins(
    kind: str, found: Iterable[Found], identify: Callable[[Found], tuple[str, object]]
) -> dict[str, Found]:
    """Return what was found by its name; `identify` gives the name of each, and its place.

    Raises:
        ConfigurationError: two have one name.
    """
    named: dict[str, Found] = {}
    for each in found:
        name, place = identify(each)
        if name in named:
            raise ConfigurationError(
                f"two of the kind {kind} are called '{name}': {identify(named[name])[1]} and "
                f"{place}; rename one, or uninstall its distribution"
            )
        named[name] = each
    return named
