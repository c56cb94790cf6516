"""The border to code of others: extensions, classes `module:Class`, and libraries that panic.

`import_module` imports a module that may be the user's, and `explain_foreign` tells an error of
such code from one of ours.
"""

import importlib
import os
import re
import sys
import traceback
from types import ModuleType
from typing import Final

from clozeline.configuration.redaction import leaves
from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.extension_list import find_extensions

VARIABLE: Final = "CLOZELINE_IMPORT"
"""Environment variable with the names that may be imported: `module:Class` or `module`, by
commas."""

_NOT_SETTINGS: Final = ("PWD", "OLDPWD", "_", "DS_ACCELERATOR")
"""Variables that change nothing, or that the trainer checks."""


def read_allowed() -> set[str]:
    """Return the names that may be imported."""
    return set(filter(None, os.environ.get(VARIABLE, "").split(",")))


def import_module(name: str) -> ModuleType:
    """Import a module, whose code may raise anything, or exit.

    Raises:
        ConfigurationError: it cannot be imported; the message says where and why.
    """
    try:
        return importlib.import_module(name)
    except (ClozelineError, KeyboardInterrupt):
        raise
    except BaseException as error:
        _, *calls = traceback.extract_tb(error.__traceback__)
        places = [error] if isinstance(error, SyntaxError) else calls
        files = [f" ({each.filename}:{each.lineno})" for each in places]
        where = next((file for file in reversed(files) if "<frozen" not in file), "")
        raise ConfigurationError(
            f"{name} cannot be imported: {type(error).__name__}: {error}{where}; repair it, or "
            "install its package in this environment, or set PYTHONPATH to the folder that holds it"
        ) from error


def explain_foreign(error: BaseException) -> str:
    """Return the message of an error that code of others raised; "" for an error of ours.

    An error of ours next to an object of theirs is told as theirs: a filter that returned None.
    """
    name, place = _find_code(error)
    if not name and isinstance(error, Exception):
        return ""
    notes = "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
    return (
        f"{notes}{name or 'a library'} failed at {place}: {error!r}; repair it, or do without it\n"
        f"{''.join(traceback.format_tb(error.__traceback__, -3))}"
    )


def explain_environment(error: BaseException) -> str:
    """Return the message of a library's error that names the value of an environment variable.

    "" for any other error, and where our own code failed.
    """
    modules = [
        str(frame.f_globals["__name__"]) for frame, _ in traceback.walk_tb(error.__traceback__)
    ]
    called = [name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names]
    if not called or called[-1].startswith("clozeline."):
        return ""
    named = {}
    for name, value in os.environ.items():
        # data may lie in the home folder, but hidden folders hold what libraries store
        end = r"(?:/\.|['\"])" if name == "HOME" else r"(?![\w.-])"
        is_word = len(value) > 2 and not value.isdigit() and name not in _NOT_SETTINGS
        if is_word and re.search(rf"[\"'=:<(]\s?{re.escape(value)}{end}", str(error)):
            named[value] = name
    if not named:
        return ""
    value = max(named, key=len)
    remedy = "name a folder that can be written" if isinstance(error, OSError) else "correct it"
    return (
        f"{str(error).strip().splitlines()[0]}: {called[-1]} follows {named[value]}={value} of the "
        f"environment: {remedy}, or unset it"
    )


def note_key(error: BaseException, data: object) -> None:
    """Note at an error the key of a configuration, given as data, that chose the failing code."""
    name, _ = _find_code(error)
    words = (name, name.partition(":")[0].rpartition(".")[2])
    for keys, value in leaves(data):
        for depth, word in enumerate((*keys, value)):
            if name and word in words:
                error.add_note(".".join(keys[: depth + 1]).removesuffix(".name"))
                return


def _find_code(error: BaseException) -> tuple[str, str]:
    """Return the class `module:Class` of others that failed, "" for none, and the file and line."""
    installed = find_extensions().values()
    others = [each.package for each in installed if each.distribution != "clozeline"]
    allowed = (name.partition(":")[0] for name in read_allowed())
    theirs = tuple(f"{name}." for name in (*allowed, *others))

    name = place = ""
    calls = [*traceback.walk_tb(error.__traceback__)]
    for frame, line in calls:
        module = str(frame.f_globals.get("__name__"))
        is_theirs = f"{module}.".startswith(theirs)
        if not is_theirs and (name or frame is not calls[-1][0]):
            continue
        place = f"{frame.f_code.co_filename}:{line}"
        name = name or module * is_theirs
        for value in frame.f_locals.values():
            kind = value if isinstance(value, type) else type(value)
            if f"{kind.__module__}.".startswith(theirs):
                name = f"{kind.__module__}:{kind.__qualname__}"
                break
    return name, place
