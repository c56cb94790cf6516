"""Load custom algorithms of a single file: classes of any importable module.

    corrupt: [{name: falling:FallingRate, rate: 0.2}]

A configuration names such a class as `module:Class`; those of an installed extension have short
names (`clozeline.extension_list`). A module is imported only if the user asks for it: by a key that
names an algorithm in a file given to a command or on its command line, or by the variable
`CLOZELINE_IMPORT`. A name in the run, set or model of another person is refused until the user
names it too. The variable passes the names on to workers.
"""

import hashlib
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.extension_list import list_extensions
from clozeline.foreign_code import VARIABLE as VARIABLE
from clozeline.foreign_code import import_module, read_allowed

_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def is_custom(name: str) -> bool:
    """Return whether a name is `module:Class`."""
    return _NAME.fullmatch(name) is not None


def name_of(algorithm: type) -> str:
    """Return the name that selects a class: its file name in a registry, else `module:Class`."""
    module = algorithm.__module__
    file = module.rpartition(".")[2]
    is_named_like_file = algorithm.__name__.lower().startswith(file.replace("_", ""))
    in_extension = is_named_like_file and any(
        module.startswith(f"{each.package}.") for each in list_extensions()
    )
    return (
        f"{module}:{algorithm.__qualname__}" if _is_outside(module) and not in_extension else file
    )


def short_name(name: str) -> str:
    """Return a short name for folders: `falling_rate` of `mylab.objectives:FallingRate`."""
    return (
        re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.rpartition(":")[2]).lower()
        if is_custom(name)
        else name
    )


def allow(name: str) -> None:
    """Allow the import of a name that the user has given, in this process and its children."""
    if is_custom(name):
        os.environ[VARIABLE] = ",".join(sorted({*read_allowed(), name}))


def import_class(name: str, *, is_allowed: bool = False) -> type:
    """Return the class `module:Class`, whose import the user or the caller allows.

    Raises:
        ConfigurationError: the user has not named it, it does not exist, or it is not a class.
    """
    module, _, attribute = name.partition(":")

    if not is_allowed and module not in sys.modules and {name, module}.isdisjoint(read_allowed()):
        raise ConfigurationError(
            f"{name}: this class is only named by a file that you did not give, so it was not "
            "imported; if you trust its code, write "
            f"{VARIABLE}={','.join(sorted({*read_allowed(), name}))} before the command"
        )

    find_in_current_folder()
    loaded = getattr(import_module(module), attribute, None)
    if not isinstance(loaded, type):
        raise ConfigurationError(f"{name}: expected a class of {module}, got {loaded!r}")
    return loaded


def find_in_current_folder() -> None:
    """Search modules also in the current folder, last, if any name may be imported.

    A process calls it before it unpickles objects of such modules. A file `json.py` next to the
    data shadows nothing, because the folder comes last.
    """
    here = os.getcwd()  # noqa: PTH109 (entries of sys.path are strings)
    if read_allowed() and here not in sys.path:
        sys.path.append(here)


def put_current_folder_last() -> None:
    """Move the current folder to the end of the search path; remove it if nothing may be imported.

    Ray prepends the driver's folder to the search path of its workers.
    """
    here = os.getcwd()  # noqa: PTH109
    sys.path[:] = [folder for folder in sys.path if folder != here]
    find_in_current_folder()


def digests(classes: Iterable[type]) -> dict[str, str]:
    """Return the SHA-256 of the source of each custom class, by its name.

    The source comprises the module that defines the class, and the modules of the same package
    whose classes it inherits from; the version of an installed package counts, too. Classes of
    Clozeline are omitted: they have versions.
    """
    custom = {name_of(each): each for each in classes if _is_outside(each.__module__)}
    return {name: _source_digest(each) for name, each in sorted(custom.items())}


def _is_outside(module: str) -> bool:
    return not f"{module}.".startswith("clozeline.")


def _source_digest(algorithm: type) -> str:
    package = algorithm.__module__.partition(".")[0]
    modules = dict.fromkeys(
        base.__module__
        for base in algorithm.__mro__
        if base.__module__.partition(".")[0] == package
    )

    digest = hashlib.sha256()
    with suppress(PackageNotFoundError):
        digest.update(version(package).encode())

    for module in modules:
        file = sys.modules[module].__file__
        if file is None:
            raise ConfigurationError(
                f"{name_of(algorithm)}: the module {module} has no source to hash"
            )
        digest.update(Path(file).read_bytes())

    return digest.hexdigest()
