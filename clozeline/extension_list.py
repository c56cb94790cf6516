"""Extensions: packages that add algorithms, stages, configuration keys and commands.

Ours are the folders of `extensions/`. An installed distribution announces its own by an entry
point, and has the same form:

    [project.entry-points."clozeline.extensions"]
    mylab = "mylab"

A package has a folder for each registry that it adds to, named by the address of the registry
(`filters/`, `ingest/readers/`), a folder with `stage.py` for each stage, and `commands/`. Its
`__init__.py` begins with one sentence, and may declare `NEEDS`, the extensions that it imports,
`EXTRA`, the extra of `pyproject.toml` with what it wants to be installed, and `PARTS` of
configuration files, with keys that tell them. All of this is read without importing it.
`words_elsewhere.yaml` has what other programs call its keys and commands.

The variable `CLOZELINE_HIDE` hides extensions: names by commas, or `all`. Processes started from
here inherit it. An extension that needs a hidden one is hidden, too.
"""

import ast
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
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

    @property
    def summary(self) -> str:
        """What it adds, in one sentence."""
        return str(self._declared.get("summary", ""))

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the extensions that it imports."""
        return tuple(self._declared.get("NEEDS", ()))

    @property
    def extra(self) -> str:
        """Extra of `pyproject.toml` that it wants; "" for none."""
        return str(self._declared.get("EXTRA", ""))

    @property
    def parts(self) -> Mapping[str, set[str]]:
        """Parts of configuration files, and the keys by which each is known."""
        return dict(self._declared.get("PARTS", {}))

    @cached_property
    def _declared(self) -> Mapping[str, Any]:
        tree = ast.parse((self.folder / "__init__.py").read_text(encoding="utf-8"))
        summary = (ast.get_docstring(tree) or "").partition("\n")[0]
        return {"summary": summary, **read_literals(tree.body)}


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
    """Return the extensions that are there and not hidden, sorted by name.

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
        Extension(each.name, f"clozeline.extensions.{each.name}", each, "clozeline")
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
    shown = {name: each for name, each in known.items() if hidden.isdisjoint((name, "all"))}
    while lacking := [name for name, each in shown.items() if not shown.keys() >= {*each.needs}]:
        for name in lacking:
            del shown[name]
    return tuple(shown.values())


def _find_installed(entry: EntryPoint) -> Extension:
    spec = find_spec(entry.value)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            f"the extension '{entry.name}' of an installed distribution: no package "
            f"'{entry.value}'; install the distribution again, or remove it"
        )
    folder = Path(spec.submodule_search_locations[0])
    return Extension(entry.name, entry.value, folder, entry.dist.name if entry.dist else "")


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
