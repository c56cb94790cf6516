"""Registries: packages whose modules each define one algorithm, found by file name.

`pipeline/corrupt/objectives/masked_lm.py` holds `class MaskedLM` and is chosen by `name: masked_lm`. Adding a file
adds the algorithm: nothing is registered anywhere. Its parameters are the nested pydantic dataclass `Options`.
A package with `NAMED_BY = "model_type"` has one algorithm for each class that sets this attribute, and a file may hold
several of them.
Algorithms outside of Clozeline have the names of `clozeline.plugins`.
"""

import difflib
import importlib
import os
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from clozeline import plugins
from clozeline.configuration.config import to_plain, validate
from clozeline.configuration.words_elsewhere import translate_algorithm
from clozeline.errors import ConfigurationError

# Registry folders whose listing is kept: planning asks for the readers several times a file.
_FOLDERS: Final = 64


def _folder(package: str) -> str:
    return package.removeprefix("clozeline.").replace(".", "/")


def names(package: str) -> list[str]:
    """Return the algorithms of a registry folder and those of entry points, sorted."""
    return sorted({*_own_names(package), *plugins.installed(package)})


def is_known(package: str, name: str) -> bool:
    """Return whether `find` looks for a class of this name: one that it lists, or `module:Class`."""
    return name in _own_names(package) or plugins.is_own(full_name(package, name))


def full_name(package: str, name: str) -> str:
    """Return the `module:Class` behind the name of an entry point, which is an alias; other names as they are."""
    if plugins.is_own(name) or name in _own_names(package):
        return name
    entry = plugins.installed(package).get(name)
    return name if entry is None else entry.value


def _own_names(package: str) -> tuple[str, ...]:
    declared = _declared_classes(package)
    return _files(package) if declared is None else tuple(sorted(declared))


def _files(package: str) -> tuple[str, ...]:
    folders = tuple(importlib.import_module(package).__path__)
    changed = tuple(os.stat(folder).st_mtime_ns for folder in folders)  # noqa: PTH116 (asked at every choice: no Path)
    return _list_files(folders, changed)


@lru_cache(_FOLDERS)
def _list_files(folders: tuple[str, ...], changed: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(folders) if not module.name.startswith("_")))


def _declared_classes(package: str) -> Mapping[str, type] | None:
    """Return the classes of a package with `NAMED_BY`, by their values of this attribute; None for other packages."""
    attribute = vars(importlib.import_module(package)).get("NAMED_BY")
    return None if attribute is None else _import_classes(package, attribute, _files(package))


@lru_cache(_FOLDERS)
def _import_classes(package: str, attribute: str, files: tuple[str, ...]) -> Mapping[str, type]:
    modules = [importlib.import_module(f"{package}.{file}") for file in files]
    kinds = [kind for module in modules for kind in vars(module).values() if isinstance(kind, type)]
    return {vars(kind)[attribute]: kind for kind in kinds if attribute in vars(kind)}


def find(package: str, name: str) -> Any:
    """Return the class of an algorithm; a ConfigurationError names the nearest known name where there is none."""
    if plugins.is_own(name := full_name(package, name)):
        return plugins.import_class(package, name)
    if name not in _own_names(package):
        raise ConfigurationError(explain_unknown_name(package, name))
    if (declared := _declared_classes(package)) is not None:
        return declared[name]
    module = importlib.import_module(f"{package}.{name}")
    compact = name.replace("_", "")
    for attribute, value in vars(module).items():
        if attribute.lower() == compact and isinstance(value, type) and value.__module__ == module.__name__:
            return value
    raise ConfigurationError(f"{package}.{name} holds no class named like its file")


def explain_unknown_name(package: str, name: str) -> str:
    """Return the message for a name that a registry lacks: what it is called here, the nearest name, or all of them."""
    known = names(package)
    near = difflib.get_close_matches(name, known, n=1)
    spelled = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
    hint = translate_algorithm(package.rpartition(".")[2], name, known) or spelled
    return f"no '{name}' in {_folder(package)}; {hint}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """An algorithm named in a configuration, with its validated options."""

    WORD: ClassVar = "name"

    name: str
    type: Any
    options: Any

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Construct it: `type(options, ...)`."""
        return self.type(self.options, *args, **kwargs)

    def plain(self) -> dict[str, Any]:
        """Return name and options as plain data."""
        return {"name": self.name, **to_plain(self.options)}


def choose(package: str, entry: str | Mapping[str, Any]) -> Chosen:
    """Resolve `name` or `{name: ..., option: ...}` and validate the options."""
    options = {"name": entry} if isinstance(entry, str) else dict(entry)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ConfigurationError(f"{_folder(package)}: expected a name or a mapping with 'name', got {entry!r}")
    name = full_name(package, name)
    kind = find(package, name)
    return Chosen(name, kind, validate(kind.Options, options, name))


@runtime_checkable
class NamesAlgorithms(Protocol):
    """A part of a configuration that names algorithms by other values than `Chosen`, such as keys of a mapping."""

    @property
    def algorithms(self) -> Sequence[type]:
        """The classes that it names so."""


def chosen_types(value: Any) -> Iterator[type]:
    """Yield the class of each algorithm that a validated configuration chooses, also in the options of another one."""
    if isinstance(value, NamesAlgorithms):
        yield from value.algorithms
    if isinstance(value, Chosen):
        yield value.type
        yield from chosen_types(value.options)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from chosen_types(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from chosen_types(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from chosen_types(getattr(value, field.name))


@dataclass(frozen=True, slots=True)
class Default:
    """Default of a field that names an algorithm, or several: help shows the names without importing their modules."""

    package: str
    shown: str | list[str] | tuple[str, ...]
    """name that help shows, or names"""

    def __call__(self) -> Any:
        """Return the algorithm, or algorithms in a list or tuple, with their default options."""
        if isinstance(self.shown, str):
            return choose(self.package, self.shown)
        chosen = [choose(self.package, name) for name in self.shown]
        return tuple(chosen) if isinstance(self.shown, tuple) else chosen


@dataclass(frozen=True, slots=True)
class OneOf:
    """Annotation of a field that names an algorithm: `Annotated[Chosen, OneOf("clozeline.pipeline.clean.filters")]`."""

    package: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(entry: Any) -> Chosen:
            if isinstance(entry, Chosen):
                return entry
            if not isinstance(entry, (str, Mapping)):
                raise ValueError(f"expected a name or a mapping with 'name', got {entry!r}")  # noqa: TRY004 (pydantic's)
            try:
                return choose(self.package, entry)
            except ConfigurationError as error:
                raise ValueError(str(error)) from error

        return core_schema.no_info_plain_validator_function(
            check, serialization=core_schema.plain_serializer_function_ser_schema(Chosen.plain)
        )
