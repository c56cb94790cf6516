"""Registries: folders whose modules each define one algorithm, found by file name.

`pipeline/corrupt/objectives/masked_lm.py` holds `class MaskedLM` and is chosen by `name:
masked_lm`; a registry may ask for a last word, as heads do: `class MaskedLMHead` in
`model/heads/masked_lm.py`. Adding a file adds the algorithm, in the folder of the registry or in
that of an extension (`clozeline.extension_list`). Its parameters are the nested pydantic dataclass
`Options`. `clozeline.plugins` says how a class of a single file is named. The registries themselves
are declared in `registries.py` of the pipeline, model and trainer, each with the interface of its
algorithms.
"""

from __future__ import annotations

import difflib
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache, partial
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Protocol,
    TypeGuard,
    TypeVar,
    cast,
    runtime_checkable,
)

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from clozeline import plugins
from clozeline.configuration.added_keys import AddedKey
from clozeline.configuration.config import to_data, validate
from clozeline.configuration.named_algorithms import NamesAlgorithm
from clozeline.configuration.words_elsewhere import translate_algorithm
from clozeline.errors import ConfigurationError
from clozeline.extension_list import (
    Extension,
    explain_unused,
    find_extensions,
    list_extensions,
    refuse_twins,
)
from clozeline.foreign_code import import_module

Algorithm_co = TypeVar("Algorithm_co", covariant=True)
Value_co = TypeVar("Value_co", covariant=True)

# Maximum number of cached folder listings: planning lists the readers several times per file.
_MOST_LISTINGS: Final = 64


@dataclass(frozen=True, slots=True)
class Component(Generic[Algorithm_co]):
    """An algorithm named in a configuration, with its validated options."""

    SHORTHAND_KEY: ClassVar = "name"

    name: str
    type: type[Algorithm_co]
    options: Any

    # only type checkers read the argument of `Component["Objective"]`: at run time it is a string,
    # so that `--help` need not import the interface
    if not TYPE_CHECKING:

        def __class_getitem__(cls, interface: object) -> type[Component]:
            return cls

    def build(self, *arguments: object, **keywords: object) -> Algorithm_co:
        """Construct the algorithm: `type(options, ...)`."""
        construct = cast(Callable[..., Algorithm_co], self.type)
        return construct(self.options, *arguments, **keywords)

    def as_dict(self) -> dict[str, Any]:
        """Return name and options."""
        return {"name": self.name, **to_data(self.options)}


@dataclass(frozen=True, slots=True)
class Default(Generic[Value_co]):
    """Default of a field for one or several algorithms; `--help` shows it without any import."""

    shown: str | list[str]
    """name or names that `--help` shows"""
    make: Callable[[], Value_co]

    def __call__(self) -> Value_co:
        """Return the algorithm or algorithms, with their default options."""
        return self.make()


@dataclass(frozen=True)
class Registry(NamesAlgorithm, Generic[Algorithm_co]):
    """Algorithms in the folders of a package and of extensions, and classes that the user names.

    Annotating a configuration field with a registry makes the field take an algorithm of it:
    `Annotated[Component["Filter"], FILTERS]`.
    """

    package: str
    """package with a module for each algorithm"""
    interface: str
    """class that every algorithm inherits from: `Class` in the `__init__.py` of the package, or
    `_module.Class` in a module of the package"""
    named_by: str = ""
    """class attribute with the name of an algorithm, if one file may hold several algorithms; by
    default an algorithm has the name of its file"""
    suffix: str = ""
    """last word of each class, after the name of its file: `Head` for `MaskedLMHead` in
    `masked_lm.py`"""
    address: str = ""
    """folder of its algorithms in an extension, by default named like that of the package:
    `objectives`; an extension with the name of its first folder has the rest of it"""

    @property
    def name(self) -> str:
        """The last word of the package: `objectives`."""
        return self.package.rpartition(".")[2]

    @property
    def folder(self) -> str:
        """The folder in the repository: `pipeline/corrupt/objectives`."""
        return self.package.removeprefix("clozeline.").replace(".", "/")

    def available(self) -> list[str]:
        """Return the names of the algorithms in the folders, sorted."""
        return sorted(self._list_names())

    def is_known(self, name: str) -> bool:
        """Return whether an algorithm has this name, or the name has the form `module:Class`."""
        return name in self._list_names() or plugins.is_custom(name)

    def full_name(self, name: str) -> str:
        """Return the short name of a `module:Class` that is in a folder of this registry.

        Other names are returned unchanged.
        """
        if not plugins.is_custom(name):
            return name
        module, _, attribute = name.partition(":")
        return next(
            (
                file
                for file, path in self._modules().items()
                if path == module and attribute.lower() == self._compact(file)
            ),
            name,
        )

    def load_class(self, name: str) -> type[Algorithm_co]:
        """Return the class of an algorithm.

        Raises:
            ConfigurationError: no algorithm has this name, or its class lacks the interface.
        """
        if plugins.is_custom(name := self.full_name(name)):
            custom = plugins.import_class(name)
            if self.implements(custom):
                return custom
            interface = f"{self._interface.__module__}.{self._interface.__qualname__}"
            raise ConfigurationError(f"{name}: expected a subclass of {interface}, got {custom!r}")

        if name not in self._list_names():
            raise ConfigurationError(self.explain_unknown_name(name))
        if self.named_by:
            return self._import_all()[name]
        module = import_module(self._modules()[name])

        for attribute, value in vars(module).items():
            if (
                attribute.lower() == self._compact(name)
                and isinstance(value, type)
                and value.__module__ == module.__name__
            ):
                return value

        raise ConfigurationError(
            f"{module.__file__}: expected a class named like the "
            f"file{self.suffix and ' and ' + self.suffix}, found none"
        )

    def classes(self) -> dict[str, type[Algorithm_co]]:
        """Return the class of each algorithm; one that cannot be imported is warned of."""
        found = {}
        for name in self.available():
            with skipping_broken():
                found[name] = self.load_class(name)
        return found

    def added_keys(self) -> dict[str, AddedKey]:
        """Return keys of a configuration, one for each class, which is then a config class.

        Those of hidden extensions are there, too, and cannot be set.
        """
        of_hidden = {
            name: AddedKey(name, partial(self.load_class, name), hidden=extension)
            for name, extension in self.find_hidden().items()
        }
        shown = {name: AddedKey(name, partial(self.load_class, name)) for name in self.available()}
        return of_hidden | shown

    def find_hidden(self) -> dict[str, str]:
        """Return the algorithms of hidden extensions, each with its extension."""
        hidden = (each for each in find_extensions().values() if each not in list_extensions())
        return {
            name: each.name
            for each in hidden
            for name in _list_modules(
                self.folder, _find_folders(self.address or self.name, (each,)), ()
            )
        }

    def options_class(self, name: str) -> type | None:
        """Return the class of the options of an algorithm, if it has one."""
        return getattr(self.load_class(name), "Options", None)

    def implements(self, found: type) -> TypeGuard[type[Algorithm_co]]:
        """Return whether a class has the interface of the algorithms."""
        return issubclass(found, self._interface)

    def create(self, name: str, *arguments: object) -> Algorithm_co:
        """Construct an algorithm that takes these arguments instead of options, such as a head."""
        construct = cast(Callable[..., Algorithm_co], self.load_class(name))
        return construct(*arguments)

    def resolve(self, entry: str | Mapping[str, object]) -> Component[Algorithm_co]:
        """Return the component of `name` or `{name: ..., option: ...}`, with validated options."""
        options = {"name": entry} if isinstance(entry, str) else dict(entry)
        name = options.pop("name", None)
        if not isinstance(name, str):
            raise ConfigurationError(
                f"{self.folder}: expected a name or a mapping with 'name', got {entry!r}"
            )
        name = self.full_name(name)
        algorithm = self.load_class(name)
        return Component(name, algorithm, validate(options_of(algorithm), options, name))

    def build(self, entry: str | Mapping[str, Any], *arguments: object) -> Algorithm_co:
        """Construct the algorithm of `name` or `{name: ..., option: ...}`."""
        return self.resolve(entry).build(*arguments)

    def default(self, name: str) -> Default[Component[Algorithm_co]]:
        """Return the default of a field that names an algorithm."""
        return Default(name, lambda: self.resolve(name))

    def defaults(self, *names: str) -> Default[list[Component[Algorithm_co]]]:
        """Return the default of a field that lists algorithms."""
        return Default(list(names), lambda: [self.resolve(name) for name in names])

    def explain_unknown_name(self, name: str) -> str:
        """Return the message for an unknown name, with the nearest name or all known names."""
        known = self.available()
        near = difflib.get_close_matches(name, known, n=1)
        spelled = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
        hint = translate_algorithm(self.name, name, known) or spelled
        if extension := self.find_hidden().get(name):
            hint = f"the extension {extension} has it, which is not used: "
            hint += explain_unused(extension)
        return f"no algorithm in {self.folder} is called '{name}'; {hint}"

    def _compact(self, file: str) -> str:
        """Return the name of the class in a file, in small letters."""
        return (file.replace("_", "") + self.suffix).lower()

    def _list_names(self) -> Collection[str]:
        return self._import_all() if self.named_by else self._modules()

    def _import_all(self) -> Mapping[str, type[Algorithm_co]]:
        """Return every class that sets the attribute `named_by`, by its value."""
        return _import_classes(self.named_by, tuple(self._modules().values()))

    def _modules(self) -> Mapping[str, str]:
        """Return the module of each algorithm's file, by the name of the file."""
        # looked up, because an import of a module that is there takes longer than all the rest
        package = sys.modules.get(self.package) or importlib.import_module(self.package)
        places = tuple((self.package, each) for each in package.__path__) + tuple(
            (package, folder)
            for package, folder in _find_folders(self.address or self.name, list_extensions())
            if package != self.package  # a registry that an extension declares
        )
        # os.stat rather than Path.stat, because every choice of an algorithm asks
        changed = tuple(os.stat(folder).st_mtime_ns for _, folder in places)  # noqa: PTH116
        return _list_modules(self.folder, places, changed)

    @property
    def _interface(self) -> type:
        module, _, attribute = f"{self.package}.{self.interface}".rpartition(".")
        interface: type = getattr(importlib.import_module(module), attribute)
        return interface

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def check(entry: object) -> Component[Algorithm_co]:
            if isinstance(entry, Component):
                return entry
            if not isinstance(entry, (str, Mapping)):
                # pydantic reports ValueErrors
                raise ValueError(  # noqa: TRY004
                    f"expected a name or a mapping with 'name', got {entry!r}"
                )
            try:
                return self.resolve(entry)
            except ConfigurationError as error:
                raise ValueError(str(error)) from error

        return core_schema.no_info_plain_validator_function(
            check, serialization=core_schema.plain_serializer_function_ser_schema(Component.as_dict)
        )


@contextmanager
def skipping_broken() -> Iterator[None]:
    """Print an error of an algorithm that the user did not ask for, as a warning."""
    try:
        yield
    except ConfigurationError as error:
        sys.stderr.write(f"warning: {error}; nothing of it is used\n")


def options_of(algorithm: type) -> Any:
    """Return the class of the options of an algorithm; ConfigurationError if it has none."""
    if not hasattr(algorithm, "Options"):
        raise ConfigurationError(f"{plugins.name_of(algorithm)}: expected a class Options in it")
    return cast(Any, algorithm).Options


@lru_cache(_MOST_LISTINGS)
def _find_folders(address: str, extensions: tuple[Extension, ...]) -> tuple[tuple[str, str], ...]:
    """Return the package and the folder of an address, in each extension that has it."""
    found = ((each, address.removeprefix(f"{each.name}/")) for each in extensions)
    return tuple(
        (f"{each.package}.{below.replace('/', '.')}", str(each.folder / below))
        for each, below in found
        if (each.folder / below).is_dir()
    )


@lru_cache(_MOST_LISTINGS)
def _list_modules(
    registry: str, places: tuple[tuple[str, str], ...], changed: tuple[int, ...]
) -> Mapping[str, str]:
    """Return the modules in folders, given as (package, folder), by the names of their files."""
    found = {  # a registry of an extension lists its folder twice
        (module.name, f"{package}.{module.name}")
        for package, folder in places
        for module in pkgutil.iter_modules([folder])
        if not module.name.startswith("_")
    }
    return dict(sorted(refuse_twins(f"algorithm of {registry}", found, lambda each: each).values()))


@lru_cache(_MOST_LISTINGS)
def _import_classes(attribute: str, names: tuple[str, ...]) -> Mapping[str, type[Any]]:
    classes: dict[str, type[Any]] = {}
    for name in names:
        with skipping_broken():
            for value in vars(import_module(name)).values():
                if isinstance(value, type) and attribute in vars(value):
                    classes[vars(value)[attribute]] = value
    return dict(sorted(classes.items()))


@runtime_checkable
class NamesAlgorithms(Protocol):
    """A configuration object that names algorithms without a `Component`, such as by its keys."""

    @property
    def algorithms(self) -> Sequence[type]:
        """The classes of these algorithms."""


def component_types(value: object) -> Iterator[type]:
    """Yield the class of every algorithm in a validated configuration, also in nested options."""
    if value is None or isinstance(value, str | int | float):
        return
    if isinstance(value, NamesAlgorithms):
        yield from value.algorithms
    if isinstance(value, Component):
        yield value.type
        yield from component_types(value.options)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from component_types(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from component_types(item)
    elif is_dataclass(value):
        for field in fields(value):
            if field.compare:
                yield from component_types(getattr(value, field.name))
