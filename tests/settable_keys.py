"""Every key that `--help` lists can be set on the command line, and its value arrives."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clozeline.configuration.config import load_config, to_plain
from clozeline.configuration.overrides import parse_yaml
from clozeline.errors import ConfigurationError
from clozeline.registry import names
from tests.registries import registries

OF_KIND = {
    "int": ("64", "4", "2", "1", "5000"),
    "float": ("0.5", "0.25", "3.0"),
    "bool": ("true", "false"),
    "str": ("abc", "en"),
    "path": ("abc",),
    "mapping": ("{}",),
    "null": ("null",),
    "auto": ("auto",),
}
"""Values to try for a type as `--help` names it."""


def unsettable(
    schema: Any, file: Path, needed: Sequence[str], keys: Iterable[tuple[str, str, str, str]], given: Mapping[str, str]
) -> list[str]:
    """Return the listed keys for which no value of their type is accepted, or whose value does not arrive.

    Args:
        schema: config class.
        file: a configuration that holds no wrong value.
        needed: further arguments, without which a key could not be set.
        keys: as `keys_of` yields them.
        given: values of keys that few values suit.
    """
    groups: dict[str, list[_Key]] = {}
    for listed, kind, default, _ in keys:
        word = re.match(r"(\S+)\.\S+ \(([\w.]+): (\w+)[\w, ]*\)", listed)
        key = listed.partition(" ")[0]
        chosen = f"{word[2] if '.' in word[2] else f'{word[1]}.{word[2]}'}={word[3]}" if word else ""
        values = [given[key]] if key in given else _values(kind, default)
        groups.setdefault(chosen, []).append(_Key(listed, key, values))
    return [
        listed
        for chosen, group in groups.items()
        for listed in _unsettable(schema, file, [*needed, chosen] if chosen else list(needed), group)
    ]


class _Key(NamedTuple):
    listed: str
    key: str
    values: list[str]


def _unsettable(schema: Any, file: Path, arguments: list[str], keys: list[_Key]) -> list[str]:
    """Set keys together, and one by one only where they exclude each other: a configuration takes long to read."""
    if len(keys) == 1:
        (entry,) = keys
        settable = any(_arrive(schema, file, arguments, {entry.key: value}) for value in entry.values)
        return [] if settable else [entry.listed]
    if _arrive(schema, file, arguments, {entry.key: entry.values[0] for entry in keys}):
        return []
    middle = len(keys) // 2
    return [
        *_unsettable(schema, file, arguments, keys[:middle]),
        *_unsettable(schema, file, arguments, keys[middle:]),
    ]


def _values(kind: str, default: str) -> list[str]:
    """Return YAML texts of a type, and the default where it is one: what a user would try."""
    usable = [default] if default not in ("", "required", "null") and not default.endswith("...") else []
    found: list[str] = []
    for part in kind.removeprefix("list of ").split(" or "):
        if part in ("name,", "name"):
            found += [name for package in registries() for name in names(package)]
        found += OF_KIND.get(part, (part,))
    return usable + ([f"[{value}]" for value in found] if kind.startswith("list of ") else found)


def _arrive(schema: Any, file: Path, arguments: Sequence[str], values: Mapping[str, str]) -> bool:
    try:
        plain = to_plain(load_config(schema, file, [*arguments, *(f"{key}={value}" for key, value in values.items())]))
    except ConfigurationError:
        return False
    return all(_same(_find(plain, key), parse_yaml(value)) for key, value in values.items())


def _find(plain: Any, key: str) -> Any:
    for part in key.split("."):
        plain = plain[0] if isinstance(plain, list) else plain
        if not isinstance(plain, Mapping):  # such as a head, of which only the weight is given
            break
        plain = plain[part] if part in plain else plain.get("objective", {}).get(part)
    return plain


def _same(plain: Any, value: Any) -> bool:
    """Return whether a value is what was given; an algorithm or an entry may add its defaults to it."""
    if isinstance(plain, Mapping):
        if isinstance(value, str):
            return value in (plain.get("name"), plain.get("path"), plain.get("objective", {}).get("name"))
        return isinstance(value, Mapping) and all(_same(plain.get(key, {}), part) for key, part in value.items())
    if isinstance(plain, list):
        return all(map(_same, plain, value)) if isinstance(value, list) else _same(plain[0], value)
    return bool(plain == value) or value == "auto"
