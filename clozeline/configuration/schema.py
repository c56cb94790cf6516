"""The keys of a config class: their names, types, defaults and meanings."""

import ast
import dataclasses
import functools
import inspect
import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator


def iter_keys(schema: Any, prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Yield (dotted key, its config class, its field there) of every key below a config class."""
    for inner in dict.fromkeys(config_classes(schema)):
        kinds = fields_of(inner)
        for field_name, field in inner.__pydantic_fields__.items():
            if not field.exclude:
                name = field.alias or field_name
                kind = kinds[name]
                name = getattr(inner, "BESIDE", {}).get(name, name)
                yield f"{prefix}{name}", inner, field_name
                entry = "NAME." if get_origin(kind) is dict else ""
                yield from iter_keys(kind, f"{prefix}{name}.{entry}")


def describe(schema: Any) -> Iterator[tuple[str, str, str, str]]:
    """Yield (dotted key, type, default, docstring) of every key below a config class."""
    for key, inner, field_name in iter_keys(schema):
        field = inner.__pydantic_fields__[field_name]
        kind = fields_of(inner)[field.alias or field_name]
        default = _default_text(field)
        has_keys = next(iter_keys(kind), None) is not None
        yield key, _type_name(kind), "" if has_keys else default, meaning(inner, field_name)


def meaning(kind: Any, field_name: str) -> str:
    """Return what a field of a config class means, on one line: its `description`, or the docstring below it.

    Docstrings are read from the source text when somebody asks. Reading them as each class is made, as pydantic offers,
    takes a third of the start of a command.
    """
    for parent in kind.__mro__:
        field = vars(parent).get("__pydantic_fields__", {}).get(field_name)
        if field is not None:
            text = field.description or _docstrings(parent.__module__).get(f"{parent.__qualname__}.{field_name}")
            if text:
                return " ".join(text.split())
    return ""


@functools.cache
def _docstrings(module: str) -> Mapping[str, str]:
    """Return the docstrings below the fields of all classes in a module, by qualified name: `Outer.Options.rate`."""
    texts: dict[str, str] = {}

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for statement, following in itertools.zip_longest(body, body[1:]):
            if isinstance(statement, ast.ClassDef):
                collect(statement.body, f"{prefix}{statement.name}.")
            elif isinstance(statement, ast.FunctionDef):
                collect(statement.body, f"{prefix}{statement.name}.<locals>.")
            elif isinstance(statement, ast.AnnAssign) and isinstance(following, ast.Expr):
                name, value = statement.target, following.value
                if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                    texts[f"{prefix}{name.id}"] = value.value

    with suppress(OSError):  # a class that was typed into an interpreter has no source
        collect(ast.parse(inspect.getsource(sys.modules[module])).body, "")
    return texts


def _type_name(kind: Any) -> str:
    """Return a type in readable form: `int`, `str or null`, `list of str`, `train or heldout`."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _type_name(next((note.schema() for note in kind.__metadata__ if hasattr(note, "schema")), parts[0]))
    if origin is Literal:
        return " or ".join(map(str, parts))
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_type_name, parts)))
    if origin in (list, tuple):
        return f"list of {_type_name(parts[0])}"
    if origin is dict:
        return f"mapping to {_type_name(parts[1])}"
    names = {NoneType: "null", Path: "path", Any: "mapping"}
    if dataclasses.is_dataclass(kind):
        return "name, or mapping with name" if getattr(kind, "__name__", "") == "Chosen" else "mapping"
    return names.get(kind) or str(getattr(kind, "__name__", kind))


def _default_text(field: Any) -> str:
    """Return the default of a field as help shows it; algorithms by the names that the field has, without import."""
    if field.is_required():
        return "required"
    shown = getattr(field.default_factory, "shown", None)
    if isinstance(shown, str):
        return shown
    return _short(field.get_default(call_default_factory=True) if shown is None else shown)


def _short(value: Any) -> str:
    """Return a default as YAML has it, so that it can be copied: `null`, `true`, `[0.9, 0.98]`; algorithms by name."""
    if value is None or isinstance(value, (bool, str, list, tuple, dict)):
        text = json.dumps(value, default=lambda item: str(getattr(item, "name", item)))
    else:
        text = str(getattr(value, "name", value))
    return text if len(text) <= 60 else text[:57] + "..."


def config_classes(kind: Any) -> list[Any]:
    """Return the config classes in a type: itself, the parts of a union, the items of a list or mapping."""
    if dataclasses.is_dataclass(kind) and hasattr(kind, "__pydantic_fields__"):
        return [kind]
    for note in getattr(kind, "__metadata__", ()):
        if callable(schema := getattr(note, "schema", None)):
            return config_classes(schema())
    return [schema_class for part in get_args(kind) for schema_class in config_classes(part)]


@functools.cache
def fields_of(kind: Any) -> Mapping[str, Any]:
    """Return the annotated type of each key of a config class."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.alias or name: hints[name] for name, field in kind.__pydantic_fields__.items()}


def _alternatives(kind: Any) -> list[Any]:
    if get_origin(kind) is Annotated:
        inner = next((note.schema() for note in kind.__metadata__ if hasattr(note, "schema")), get_args(kind)[0])
        return _alternatives(inner)
    if get_origin(kind) in (Union, UnionType):
        return [alternative for part in get_args(kind) for alternative in _alternatives(part)]
    return [kind]


def below(kind: Any, key: str) -> Any:
    """Return the type of a key, entry or list item of a value of type `kind`; None where it is not known."""
    for alternative in _alternatives(kind):
        origin, parts = get_origin(alternative), get_args(alternative)
        if origin is dict:
            return parts[1]
        if origin in (list, tuple) and key.isdigit():
            return parts[0]
        if hasattr(alternative, "__pydantic_fields__") and key in fields_of(alternative):
            return fields_of(alternative)[key]
    return None


def iter_unknown_keys(kind: Any, data: Any) -> Iterator[tuple[str, ...]]:
    """Yield the location of each key of plain data that its config class lacks.

    The options of algorithms are not checked, nor values that have short forms, which a validator makes long first, nor
    classes with a schema of their own, whose keys may depend on their values.
    """
    has_short_forms = any(isinstance(note, BeforeValidator) for note in getattr(kind, "__metadata__", ()))
    strict = [alternative for alternative in _alternatives(kind) if alternative is not NoneType]
    has_own_schema = any(hasattr(alternative, "__get_pydantic_core_schema__") for alternative in strict)
    if has_short_forms or has_own_schema or not isinstance(data, (Mapping, list)):
        return
    closed = all(hasattr(one, "__pydantic_fields__") for one in strict)
    for key, value in data.items() if isinstance(data, Mapping) else enumerate(data):
        inner = below(kind, str(key))
        if inner is not None:
            yield from ((str(key), *rest) for rest in iter_unknown_keys(inner, value))
        elif closed and strict and isinstance(data, Mapping):
            yield (str(key),)


def word_key(kind: Any) -> str | None:
    """Return the key that a word means where a mapping is expected: `name` of an algorithm, `path` of an input."""
    for alternative in _alternatives(kind):
        if (word := getattr(alternative, "WORD", None)) is not None:
            return str(word)
        if get_origin(alternative) is list:
            return word_key(get_args(alternative)[0])
    return None


def default_of(kind: Any, key: str) -> Any:
    """Return the plain default of a key that names an algorithm; None for other keys, and where it has no default."""
    for alternative in _alternatives(kind):
        for name, field in getattr(alternative, "__pydantic_fields__", {}).items():
            if (field.alias or name) == key and not field.is_required():
                default = field.get_default(call_default_factory=True)
                return default.plain() if hasattr(default, "plain") else None
    return None


def scalars_of(kind: Any) -> set[Any]:
    """Return the scalar types that a value of type `kind` may have, also as the word that stands for a list or mapping.

    That of a type that is not known, or may be anything, is empty.
    """
    found: set[Any] = set()
    for alternative in _alternatives(kind):
        origin = get_origin(alternative)
        if (word := getattr(alternative, "WORD", None)) is not None:
            found |= scalars_of(below(alternative, word) or str)
        elif origin in (list, tuple):
            found |= scalars_of(get_args(alternative)[0])
        elif origin is Literal:
            found |= {type(value) for value in get_args(alternative)}
        elif alternative in (str, int, float, bool):
            found.add(alternative)
        elif alternative is Path:
            found.add(str)
    return found


def holds_entries(kind: Any) -> bool:
    """Return whether a value of type `kind` may be a list or a mapping; a type that is not known may."""
    return any(alternative not in (str, int, float, bool, Path, NoneType) for alternative in _alternatives(kind))


def maps_names(kind: Any) -> bool:
    """Return whether a value may be a mapping whose keys are names that the user gives or chooses."""
    return any(get_origin(alternative) is dict for alternative in _alternatives(kind))
