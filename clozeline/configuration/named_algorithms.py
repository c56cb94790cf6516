"""Find the algorithms that a configuration names, by the types of its fields.

Only what the user's own words name may be imported (`clozeline.plugins`): `schedule: mylab:Falling`
is a name, since the type of this key names a schedule; `note: mylab:Falling` is a text.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from clozeline import plugins
from clozeline.configuration.overrides import fields_of, parse_word
from clozeline.errors import ConfigurationError


class NamesAlgorithm(ABC):
    """Annotation of a type whose values name an algorithm.

    A value is `lamb`, or `{name: lamb, ...}` with its options.
    """

    @abstractmethod
    def options_class(self, name: str) -> type | None:
        """Return the class of the options of an algorithm, if it has one.

        ConfigurationError if it is unknown.
        """


@dataclass(frozen=True)
class IsName(NamesAlgorithm):
    """Annotation of a text that is the name of an algorithm, whose options are elsewhere."""

    def options_class(self, name: str) -> None:
        """Return None."""


def allow_named(kind: object, value: object) -> None:
    """Allow the import of modules that the user's data of type `kind` names.

    Here and in processes started from here.
    """
    for name in _iter_names(kind, value):
        plugins.allow(name)


def allow_words(kind: object, words: Sequence[str]) -> None:
    """Allow the import of modules that the user's `key=value` words name.

    The words change data of type `kind`.
    """
    for word in words:
        key, _, text = word.partition("=")
        value: object = parse_word(None, text)
        for part in reversed(key.split(".")):
            value = {part: value}
        allow_named(kind, value)


def _iter_names(kind: object, value: object) -> Iterator[str]:
    """Yield the names in a value.

    A caller allows each before it asks for the next, which may be among its options.
    """
    origin = get_origin(kind)
    parts = get_args(kind)

    if origin is Annotated:
        yield from _iter_names_of_annotated(parts[0], parts[1:], value)
    elif origin in (Union, UnionType):
        for part in parts:
            yield from _iter_names(part, value)
    elif origin is dict and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _iter_names(parts[0], key)
            yield from _iter_names(parts[1], item)
    elif origin in (list, tuple):
        for item in _items_of(value):
            yield from _iter_names(parts[0], item)
    elif isinstance(kind, type) and hasattr(kind, "__pydantic_fields__"):
        yield from _iter_names_of_keys(kind, value)


def _items_of(value: object) -> Iterable[object]:
    """Return the items of a list, of one item without brackets, or of indices as keys.

    For example `corrupt.0.name=...`.
    """
    if isinstance(value, Mapping) and all(str(key).isdecimal() for key in value):
        return value.values()
    return value if isinstance(value, list | tuple) else [value]


def _iter_names_of_annotated(kind: object, notes: Sequence[object], value: object) -> Iterator[str]:
    for note in notes:
        if isinstance(note, NamesAlgorithm):
            yield from _iter_names_of_component(note, value)
            return
        if hasattr(note, "schema"):
            yield from _iter_names(note.schema(), value)
            return
    yield from _iter_names(kind, value)


def _iter_names_of_component(note: NamesAlgorithm, value: object) -> Iterator[str]:
    name = value.get("name") if isinstance(value, Mapping) else value
    if not isinstance(name, str):
        return
    yield name
    if isinstance(value, Mapping):
        with suppress(ConfigurationError):  # validation tells an unknown name
            yield from _iter_names(note.options_class(name), value)


def _iter_names_of_keys(kind: type, value: object) -> Iterator[str]:
    if isinstance(value, str) and hasattr(kind, "SHORTHAND_KEY"):
        value = {kind.SHORTHAND_KEY: value}
    if isinstance(value, Mapping):
        inline = getattr(kind, "INLINE_KEYS", {})
        for key, (annotation, _) in fields_of(kind).items():
            if key in value or key in inline:
                yield from _iter_names(annotation, value.get(key, value))
        if hasattr(kind, "OPTIONS_OF"):
            key, registry = kind.OPTIONS_OF
            yield from _iter_names_of_component(registry, {**value, "name": value.get(key)})
