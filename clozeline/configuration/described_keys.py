"""Describe the keys of config classes for help: name, type, default and docstring."""

import ast
import dataclasses
import functools
import inspect
import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType, NoneType
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin

from clozeline.configuration.overrides import alternatives, fields_of
from clozeline.errors import ConfigurationError

Annotation = TypeVar("Annotation")


@dataclasses.dataclass(frozen=True)
class Common:
    """Annotation of a field that most users set: a help text that is too long shows these alone."""


def find_annotation(field: Any, kind: type[Annotation]) -> Annotation | None:
    """Return the annotation of this class that a field of a config class has.

    None if it has none.
    """
    return next((note for note in field.metadata if isinstance(note, kind)), None)


class DescribedKey(NamedTuple):
    """A key of a config class, in words."""

    key: str
    """dotted"""
    type: str
    default: str
    meaning: str
    """the docstring below the field, or else that of its config class"""


def describe(
    schema: Any, prefix: str = "", *, common: bool = False, only: str | None = None
) -> Iterator[DescribedKey]:
    """Yield every key below a config class, or those that are `Common` alone.

    `only` is the one key of the class that is described, with the keys below it.
    """
    for inner in dict.fromkeys(_config_classes(schema)):
        for name, (kind, field) in fields_of(inner).items():
            if only not in (None, name):
                continue
            key = prefix + getattr(inner, "INLINE_KEYS", {}).get(name, name)
            try:
                has_names = any(get_origin(each) is dict for each in alternatives(kind))
            except ConfigurationError as error:  # its class cannot be imported
                yield DescribedKey(key, "cannot be used", "", str(error))
                continue
            nested = [*describe(kind, key + (".NAME." if has_names else "."), common=common)]
            if common and find_annotation(field, Common) is None:
                yield from nested
                continue
            below = next(_config_classes(kind), None)
            default = "" if below else _default_text(field)
            text = field.description or _docstrings(inner).get(name, "")
            notes = getattr(kind, "__metadata__", ())
            of_key = next((note.load() for note in notes if hasattr(note, "load")), below)
            if of_key and not text:
                text = (of_key.__doc__ or "").partition("\n\n")[0].rstrip(".")
            yield DescribedKey(key, _type_name(kind), default, " ".join(text.split()))
            yield from nested


@functools.cache
def _docstrings(kind: Any) -> Mapping[str, str]:
    """Return the docstring below each key of a config class.

    It is read from its source when somebody asks.

    Pydantic reads them as each class is made, which takes a third of the start of a command.
    """
    texts: dict[str, str] = {}
    keys = {name: field.alias or name for name, field in kind.__pydantic_fields__.items()}

    for parent in reversed(kind.__mro__[:-1]):
        definition = _class_definitions(sys.modules[parent.__module__]).get(parent.__qualname__)
        body = getattr(definition, "body", ())
        for field, text in itertools.pairwise(body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                    value=ast.Constant(value=str(meaning))
                ):
                    texts[keys.get(name, name)] = meaning

    return texts


@functools.cache
def _class_definitions(module: ModuleType) -> Mapping[str, ast.ClassDef]:
    """Return the classes of a module's source by their qualified names.

    A module without source has none.
    """
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError):  # a class that was typed into an interpreter
        return {}

    found: dict[str, ast.ClassDef] = {}
    rest = [("", tree.body)]
    while rest:
        prefix, body = rest.pop()
        for node in body:
            if isinstance(node, ast.ClassDef):
                found[prefix + node.name] = node
                rest.append((f"{prefix}{node.name}.", node.body))
            elif isinstance(node, ast.FunctionDef):
                rest.append((f"{prefix}{node.name}.<locals>.", node.body))

    return found


def _config_classes(kind: object) -> Iterator[object]:
    """Yield the config classes in a type.

    They are itself, the parts of a union, the items of a list or mapping.
    """
    for alternative in alternatives(kind):
        if hasattr(alternative, "__pydantic_fields__"):
            yield alternative
        else:
            for part in get_args(alternative):
                yield from _config_classes(part)


def _type_name(kind: object) -> str:
    """Return a type in readable form: `int`, `str or null`, `list of str`, `train or heldout`."""
    return " or ".join(dict.fromkeys(map(_name_alternative, alternatives(kind))))


def _name_alternative(kind: object) -> str:
    origin = get_origin(kind)
    parts = get_args(kind)
    if origin is Literal:
        return " or ".join(map(str, parts))
    if origin in (list, tuple):
        return f"list of {_type_name(parts[0])}"
    if origin is dict:
        return f"mapping to {_type_name(parts[1])}"
    if dataclasses.is_dataclass(kind):
        return "mapping" if hasattr(kind, "__pydantic_fields__") else "name, or mapping with name"
    return {NoneType: "null", Path: "path", Any: "mapping"}.get(kind) or str(
        getattr(kind, "__name__", kind)
    )


def _default_text(field: Any) -> str:
    """Return a default as YAML has it, so that it can be copied.

    Algorithms are named without importing them.
    """
    if field.is_required():
        return "required"
    names = getattr(field.default_factory, "shown", None)
    value = field.get_default(call_default_factory=True) if names is None else names
    text = json.dumps(value, default=lambda item: str(getattr(item, "name", item)))
    if value is names or not isinstance(value, str):
        text = text.strip('"')
    return text if len(text) <= 60 else text[:57] + "..."
