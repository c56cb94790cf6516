"""Compose a configuration from its file: its part for a command, the file that it is based on, and a chosen variant.

A file may hold parts for two commands (`pipeline:` and `train:`), build on a shipped or own file (`base: tiny`,
`base: ../train.yaml`), and name variants of itself (`variants: {tiny: {...}}`, chosen with `variant=tiny`).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clozeline import HOME
from clozeline.configuration.overrides import merge
from clozeline.configuration.schema import below
from clozeline.errors import ConfigurationError

_BASES: Final = HOME / "configs" / "bases"
_PARTS: Final = {"pipeline", "train"}
_MOST_BASES: Final = 8


def compose(
    schema: Any, path: Path, overrides: Sequence[str], read: Callable[[Path], dict[str, Any]]
) -> tuple[dict[str, Any], list[str]]:
    """Return the keys that a file and its bases give for a class of options, and the overrides without `variant=`.

    A mapping is merged into that of the base as by an override: an algorithm with its `name`, and a mapping whose keys
    are names, replace it.

    Raises:
        ConfigurationError: a base or variant does not exist, bases lead in a circle, or the file has no such part.
    """
    chosen = [word.removeprefix("variant=") for word in overrides if word.startswith("variant=")]
    others = [word for word in overrides if not word.startswith("variant=")]
    data = _with_base(schema, _take_part(schema, read(path), path), path, read)
    variants = data.pop("variants", {}) if below(schema, "variants") is None else {}
    if not isinstance(variants, Mapping):
        raise ConfigurationError(f"{path}: variants: expected a mapping of names, got {variants!r}")
    for name in chosen:
        if not isinstance(keys := variants.get(name), Mapping):
            known = ", ".join(map(str, variants)) or "it has none"
            raise ConfigurationError(f"{path}: no variant '{name}'; known: {known}")
        data = merge(schema, data, _with_base(schema, dict(keys), path, read))
    return data, others


def _take_part(schema: Any, data: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the part of a file that belongs to a class of options; a file without parts is one."""
    if not data or not set(data) <= _PARTS:
        return data
    part = data.get(getattr(schema, "PART", ""))
    if not isinstance(part, dict):
        raise ConfigurationError(f"{path}: expected the key '{getattr(schema, 'PART', '')}', got {', '.join(data)}")
    return part


def _with_base(
    schema: Any, data: dict[str, Any], path: Path, read: Callable[[Path], dict[str, Any]], depth: int = 0
) -> dict[str, Any]:
    """Return the keys of a file merged over those of its `base`, a name in configs/bases or a path next to the file."""
    if "base" not in data:
        return data
    name = data["base"]
    if not isinstance(name, str) or depth == _MOST_BASES:
        problem = f"expected a name or a path, got {name!r}" if depth < _MOST_BASES else "the files lead in a circle"
        raise ConfigurationError(f"{path}: base: {problem}")
    file = path.parent / name if name.endswith((".yaml", ".yml")) else _BASES / f"{name}.yaml"
    if not file.is_file():
        shipped = ", ".join(sorted(found.stem for found in _BASES.glob("*.yaml")))
        raise ConfigurationError(f"{path}: base: {file}: no such file; expected a path ending in .yaml, or: {shipped}")
    lower = _with_base(schema, _take_part(schema, read(file), file), file, read, depth + 1)
    inherited = {key: value for key, value in lower.items() if key != "variants"}
    merged: dict[str, Any] = merge(schema, inherited, {key: value for key, value in data.items() if key != "base"})
    return merged
