"""The keys of a config class: their names, types, defaults and meanings."""

import ast
import dataclasses
import functools
import inspect
import itertools
import json
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

_SCALARS: Final = (str, int, float, bool, Path, NoneType)


def describe(schema: Any, prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Yield (dotted key, type, default, docstring) of every key below a config class."""
    for inner in dict.fromkeys(_config_classes(schema)):
        for name, (kind, field) in fields_of(inner).items():
            key = prefix + getattr(inner, "BESIDE", {}).get(name, name)
            nested = list(describe(kind, f"{key}.NAME." if get_origin(kind) is dict else f"{key}."))
            text = field.description or _docstrings(inner).get(name, "")
            yield key, _type_name(kind), "" if nested else _default_text(field), " ".join(text.split())
            yield from nested


@functools.cache
def fields_of(kind: Any) -> Mapping[str, tuple[Any, Any]]:
    """Return each key of a config class with its annotated type and its field."""
    hints = get_type_hints(kind, include_extras=True)
    fields = kind.__pydantic_fields__.items()
    return {field.alias or name: (hints[name], field) for name, field in fields if not field.exclude}


@functools.cache
def _docstrings(kind: Any) -> Mapping[str, str]:
    """Return the docstring below each key of a config class, read from its source when somebody asks.

    Pydantic reads them as each class is made, which takes a third of the start of a command.
    """
    texts: dict[str, str] = {}
    keys = {name: field.alias or name for name, field in kind.__pydantic_fields__.items()}
    for parent in reversed(kind.__mro__[:-1]):
        with suppress(OSError):  # a class that was typed into an interpreter has no source
            definition: Any = ast.parse(textwrap.dedent(inspect.getsource(parent))).body[0]
            for field, text in itertools.pairwise(definition.body):
                match field, text:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(meaning))):
                        texts[keys.get(name, name)] = meaning
    return texts


def _alternatives(kind: Any) -> list[Any]:
    """Return the types in a union, or the one type, without annotations."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _alternatives(next((note.schema() for note in kind.__metadata__ if hasattr(note, "schema")), parts[0]))
    if origin in (Union, UnionType):
        return [alternative for part in parts for alternative in _alternatives(part)]
    return [kind]


def _config_classes(kind: Any) -> Iterator[Any]:
    """Yield the config classes in a type: itself, the parts of a union, the items of a list or mapping."""
    for alternative in _alternatives(kind):
        if hasattr(alternative, "__pydantic_fields__"):
            yield alternative
        else:
            for part in get_args(alternative):
                yield from _config_classes(part)


def _type_name(kind: Any) -> str:
    """Return a type in readable form: `int`, `str or null`, `list of str`, `train or heldout`."""
    return " or ".join(dict.fromkeys(map(_name_alternative, _alternatives(kind))))


def _name_alternative(kind: Any) -> str:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(map(str, parts))
    if origin in (list, tuple):
        return f"list of {_type_name(parts[0])}"
    if origin is dict:
        return f"mapping to {_type_name(parts[1])}"
    if dataclasses.is_dataclass(kind):
        return "mapping" if hasattr(kind, "__pydantic_fields__") else "name, or mapping with name"
    return {NoneType: "null", Path: "path", Any: "mapping"}.get(kind) or str(getattr(kind, "__name__", kind))


def _default_text(field: Any) -> str:
    """Return a default as YAML has it, so that it can be copied; algorithms by their names, without importing them."""
    if field.is_required():
        return "required"
    names = getattr(field.default_factory, "shown", None)
    value = field.get_default(call_default_factory=True) if names is None else names
    text = json.dumps(value, default=lambda item: str(getattr(item, "name", item)))
    if value is names or not isinstance(value, str):
        text = text.strip('"')
    return text if len(text) <= 60 else text[:57] + "..."


def below(kind: Any, key: str) -> Any:
    """Return the type of a key, entry or list item of a value of type `kind`; None where it is not known."""
    for alternative in _alternatives(kind):
        origin, parts = get_origin(alternative), get_args(alternative)
        if origin is dict:
            return parts[1]
        if origin in (list, tuple) and key.isdecimal():
            return parts[0]
        if hasattr(alternative, "__pydantic_fields__") and key in fields_of(alternative):
            return fields_of(alternative)[key][0]
    return None


def default_of(kind: Any, key: str) -> Any:
    """Return the plain default of a key that names an algorithm; None for other keys, and where it has no default."""
    for alternative in _alternatives(kind):
        if hasattr(alternative, "__pydantic_fields__") and key in fields_of(alternative):
            default = fields_of(alternative)[key][1].get_default(call_default_factory=True)
            return default.plain() if hasattr(default, "plain") else None
    return None


def word_key(kind: Any) -> str | None:
    """Return the key that a word means where a mapping is expected: `name` of an algorithm, `path` of an input."""
    for alternative in _alternatives(kind):
        if hasattr(alternative, "WORD"):
            return str(alternative.WORD)
        if get_origin(alternative) is list:
            return word_key(get_args(alternative)[0])
    return None


def scalars_of(kind: Any) -> set[Any]:
    """Return the scalar types that a value of type `kind` may have, also as the word that stands for a list or mapping.

    That of a type that is not known, or may be anything, is empty.
    """
    found: set[Any] = set()
    for alternative in _alternatives(kind):
        origin = get_origin(alternative)
        if hasattr(alternative, "WORD") or alternative is Path:
            found.add(str)
        elif origin in (list, tuple):
            found |= scalars_of(get_args(alternative)[0])
        elif origin is Literal:
            found |= set(map(type, get_args(alternative)))
        elif alternative in _SCALARS:
            found.add(alternative)
    return found


def is_scalar(kind: Any) -> bool:
    """Return whether a value of type `kind` is neither a list nor a mapping; a type that is not known may be one."""
    return all(alternative in _SCALARS for alternative in _alternatives(kind))


def maps_names(kind: Any) -> bool:
    """Return whether a value may be a mapping whose keys are names that the user gives or chooses."""
    return any(get_origin(alternative) is dict for alternative in _alternatives(kind))
