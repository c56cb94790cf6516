"""Registries of families and heads: folders whose modules each hold one class, named like its file."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from typing import Any

from model.errors import ConfigurationError


def names(package: str) -> list[str]:
    """Return the entries of a registry folder, sorted: `names("model.heads")` gives `["lm", "masked_lm"]`."""
    path = importlib.import_module(package).__path__
    return sorted(module.name for module in pkgutil.iter_modules(path) if not module.name.startswith("_"))


def find(package: str, name: str) -> Any:
    """Return the class of an entry: `find("model.heads", "masked_lm")` is `MaskedLM`.

    Raises:
        ConfigurationError: the entry does not exist; the message has the nearest name.
    """
    known = names(package)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
        raise ConfigurationError(f"no '{name}' in {package.replace('.', '/')}; {hint}")
    module = importlib.import_module(f"{package}.{name}")
    wanted = name.replace("_", "")
    for attribute, value in vars(module).items():
        if attribute.lower() == wanted and isinstance(value, type) and value.__module__ == module.__name__:
            return value
    raise ConfigurationError(f"{package}.{name} holds no class named like its file")
