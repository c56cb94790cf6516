"""Algorithms of one's own: classes of any installed or importable module, by `module:Class` or by an entry point.

    corrupt: [{name: mylab.objectives:FallingRate, rate: 0.2}]

    [project.entry-points."clozeline.objectives"]
    falling_rate = "mylab.objectives:FallingRate"

An entry point gives a plain name. A module is imported only where the user's own words ask for it:
a key that names an algorithm, in a file given to a command or on its command line, the variable
`CLOZELINE_IMPORT`, or an installed entry point. What somebody else's run, set or model names is
refused until one of these names it, too. The variable carries the names to workers.
"""

import hashlib
import importlib
import os
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, SelectableGroups, entry_points
from pathlib import Path
from types import ModuleType
from typing import Final

from clozeline.errors import ConfigurationError

VARIABLE: Final = "CLOZELINE_IMPORT"
"""Variable with the names that may be imported, `module:Class` or `module`, between commas."""
_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def is_custom(name: str) -> bool:
    """Return whether a name is `module:Class`."""
    return _NAME.fullmatch(name) is not None


def name_of(kind: type) -> str:
    """Return the name by which a class is chosen: that of its file in a registry, `module:Class` elsewhere."""
    module = kind.__module__
    return f"{module}:{kind.__qualname__}" if _is_outside(module) else module.rpartition(".")[2]


def short_name(name: str) -> str:
    """Return a name for folders and tables: `falling_rate` of `mylab.objectives:FallingRate`."""
    return (
        re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.rpartition(":")[2]).lower()
        if is_custom(name)
        else name
    )


def allow(name: str) -> None:
    """Allow the import of a name that the user's own words give, in this process and those that it starts."""
    if is_custom(name):
        os.environ[VARIABLE] = ",".join(sorted({*_allowed(), name}))


def _allowed() -> set[str]:
    return set(filter(None, os.environ.get(VARIABLE, "").split(",")))


@cache
def installed(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by their names."""
    return {entry.name: entry for entry in sorted(_entry_points().select(group=group))}


@cache
def _entry_points() -> SelectableGroups:
    return entry_points()  # reads the metadata of every installed package


def import_class(name: str, *, is_allowed: bool = False) -> type:
    """Return the class of `module:Class`, whose import the user's words allow, or the caller.

    Raises:
        ConfigurationError: nobody but the configuration of a foreign folder names it, it is not
            there, or is no class.
    """
    module, _, attribute = name.partition(":")
    if not is_allowed and module not in sys.modules and {name, module}.isdisjoint(_allowed()):
        raise ConfigurationError(
            f"{name}: only a file that you did not write names this class, so it was not "
            "imported; where you trust its "
            f"code, put {VARIABLE}={','.join(sorted({*_allowed(), name}))} before the command"
        )
    try:
        found = getattr(_import(module), attribute)
    except ModuleNotFoundError as error:
        where = (
            "install its package in this environment, or set PYTHONPATH to the folder that holds it"
        )
        raise ConfigurationError(f"{name}: no module '{error.name}'; {where}") from error
    except AttributeError as error:
        raise ConfigurationError(f"{name}: the module {module} has no '{attribute}'") from error
    if not isinstance(found, type):
        raise ConfigurationError(f"{name}: expected a class, got {found!r}")
    return found


def find_in_current_folder() -> None:
    """Look for modules also in the current folder, if any name may be imported: behind all installed ones.

    A process calls it before it unpickles objects of such modules. A file `json.py` among the data
    shadows nothing.
    """
    here = os.getcwd()  # noqa: PTH109 (a string, as the others are)
    if _allowed() and here not in sys.path:
        sys.path.append(here)


def put_current_folder_last() -> None:
    """Search the current folder after all others, or not at all if no name may be imported.

    Ray puts the folder of its driver first in the path of its workers.
    """
    here = os.getcwd()  # noqa: PTH109
    sys.path[:] = [folder for folder in sys.path if folder != here]
    find_in_current_folder()


def _import(module: str) -> ModuleType:
    """Import a module, also from the current folder."""
    find_in_current_folder()
    return importlib.import_module(module)


def digests(kinds: Iterable[type]) -> dict[str, str]:
    """Return the SHA-256 of the source of each class of one's own, by its name; classes of Clozeline have versions.

    The source is that of the module that defines the class, and of the modules of the same package
    whose classes it inherits from.
    """
    found = {name_of(kind): kind for kind in kinds if _is_outside(kind.__module__)}
    return {name: _source_digest(kind) for name, kind in sorted(found.items())}


def _is_outside(module: str) -> bool:
    return not f"{module}.".startswith("clozeline.")


def _source_digest(kind: type) -> str:
    package = kind.__module__.partition(".")[0]
    modules = dict.fromkeys(
        base.__module__ for base in kind.__mro__ if base.__module__.partition(".")[0] == package
    )
    digest = hashlib.sha256()
    for module in modules:
        file = sys.modules[module].__file__
        if file is None:
            raise ConfigurationError(f"{name_of(kind)}: the module {module} has no source to hash")
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()
