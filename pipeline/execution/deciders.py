"""List what decided the output of a stage: its algorithms with their versions, files with hashes, and packages."""

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any, TypedDict

from clozeline.pipeline.execution.stages import Stage
from clozeline.registry import Chosen


class Deciders(TypedDict):
    """Algorithms, files and packages that decided the output of a stage, as its `report.json` holds it."""

    version: int
    """sum of the versions of all algorithms, part of the digest"""
    algorithms: dict[str, int]
    """`VERSION` of each algorithm that the configuration chooses, by folder and name"""
    files: dict[str, str]
    """hash of each model, list or dictionary, by path"""
    packages: dict[str, str]
    """version of Python, of Clozeline and of each package that it needs"""


def deciders_of(stage: Stage[Any, Any]) -> Deciders:
    """Return what decides the output of a stage on this machine."""
    config = stage.config if stage.recipe.has(stage.name) else None
    chosen = {f"{each.type.__module__.split('.')[-2]}/{each.name}": each.type for each in _iter_chosen(config)}
    versions = {name: int(getattr(algorithm, "VERSION", 0)) for name, algorithm in sorted(chosen.items())}
    return {
        "version": stage.version(), "algorithms": versions, "files": dict(sorted(stage.files().items())),
        "packages": dict(_package_versions()),
    }  # fmt: skip


def _iter_chosen(value: Any) -> Iterator[Chosen]:
    """Yield the algorithms that a configuration names, also inside the options of others."""
    if isinstance(value, Chosen):
        yield value
        value = value.options
    if is_dataclass(value):
        for each in fields(value):
            yield from _iter_chosen(getattr(value, each.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _iter_chosen(item)
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        for item in value:
            yield from _iter_chosen(item)


@cache
def _package_versions() -> tuple[tuple[str, str], ...]:
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in requires("clozeline") or []]
    versions = {"python": platform.python_version(), "clozeline": version("clozeline")}
    for name in sorted(set(names)):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # an extra that is not installed
            continue
    return tuple(versions.items())
