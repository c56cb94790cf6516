"""Describe the arguments of units: the fields that decide, with others, what they write."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

from clozeline import plugins
from clozeline.configuration.config import config_digest, to_data
from clozeline.pipeline.execution.unit_record import Arguments
from clozeline.registry import Component, component_types

OPTIONS: Final = "options"
"""Name of the digest of the arguments that are no plain values; many units share them, so that they
are stored in a file."""


_PLAIN: Final = frozenset([str, int, bool, float, type(None)])


@runtime_checkable
class Versioned(Protocol):
    """An algorithm with a version, which is raised if it gives another output."""

    VERSION: ClassVar[int]


def describe_algorithms(types: Iterable[type]) -> dict[str, Any]:
    """Return the versions of algorithms, and digests of the source of custom ones, by name.

    A class of another package may have no version: that of its package is part of the digest.
    """
    algorithms = list(types)
    versions = {
        plugins.name_of(each): int(each.VERSION)
        for each in algorithms
        if isinstance(each, Versioned)
    }
    return {"versions": versions, "custom": plugins.digests(algorithms)}


class Describer:
    """Describes units; options that many of them share are described once."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        """options by digest"""
        self._known: dict[tuple[int, ...], tuple[object, str]] = {}
        self._names: dict[type, tuple[str, ...]] = {}

    def describe(self, unit: Any) -> Arguments:
        """Return the version and the fields of a unit, without those left out of comparisons."""
        kind = type(unit)
        if kind not in self._names:
            self._names[kind] = tuple(field.name for field in fields(unit) if field.compare)
        arguments: dict[str, Any] = {"version": kind.VERSION}
        shared: dict[str, Any] = {}
        for name in self._names[kind]:
            value = getattr(unit, name)
            if type(value) in _PLAIN:
                arguments[name] = value
            else:
                shared[name] = value
        key = (id(kind), *map(id, shared.values()))
        known = self._known.get(key)
        if known is None:  # it keeps the values, whose ids would be given to others
            known = self._known[key] = (shared, self._describe_options(shared))
        arguments[OPTIONS] = known[1]
        return arguments

    def _describe_options(self, shared: Mapping[str, Any]) -> str:
        options = {name: _plain(value) for name, value in shared.items()}
        described = {**options, **describe_algorithms(component_types(shared))}
        digest = config_digest(described)
        self.options[digest] = described
        return digest


def _plain(value: Any) -> Any:
    """Return a value as JSON data; 1 and 1.0 are equal."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Component):
        return _plain(value.as_dict())
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "__pydantic_fields__"):
        return _plain(to_data(value))
    if is_dataclass(value):
        content = {
            field.name: _plain(getattr(value, field.name))
            for field in fields(value)
            if field.compare
        }
        return {**content, "version": value.VERSION} if isinstance(value, Versioned) else content
    return json.loads(json.dumps(value))
