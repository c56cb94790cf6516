"""Reading configurations: strict YAML, dotted overrides, validation by pydantic dataclasses.

Traps of YAML 1.1 are closed: `3e-4` is a number, `no` and `on` are words, a key given twice is an error.

A class whose keys had other names before lists them: `RENAMED: ClassVar = {"ffn": "ffn_dim"}`. A configuration that
uses the former name is refused with the present one; what an earlier version saved is read within `former_names()`.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ConfigDict, TypeAdapter, ValidationError

from pipeline.errors import ConfigurationError

__all__ = [
    "STRICT",
    "config_digest",
    "config_file",
    "describe",
    "former_names",
    "load_config",
    "renamed_keys",
    "save_yaml",
    "to_plain",
    "validate",
]

T = TypeVar("T")

STRICT: Final = ConfigDict(extra="forbid", use_attribute_docstrings=True, arbitrary_types_allowed=True)
"""Pydantic configuration of every options class: unknown keys are errors, docstrings are descriptions."""


_FORMER_NAMES: ContextVar[bool] = ContextVar("former_names", default=False)
_RECIPES: Final = Path(__file__).parents[1] / "configs" / "recipes"


def config_file(given: str, kind: str) -> Path:
    """Return the file that `--config` names: a path, or `recipe:NAME` for a recipe that comes with Clozeline.

    Args:
        given: value of `--config`.
        kind: file of a recipe that the command reads, `pipeline.yaml` or `train.yaml`.

    Raises:
        ConfigurationError: there is no such recipe, or it has no such file.
    """
    name = given.removeprefix("recipe:")
    if name == given:
        return Path(given)
    known = sorted(path.parent.name for path in _RECIPES.glob(f"*/{kind}"))
    if name not in known:
        raise ConfigurationError(f"--config {given}: no recipe '{name}' with a {kind}; known: {', '.join(known)}")
    return _RECIPES / name / kind


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML where only `true` and `false` are booleans, `3e-4` is a float and keys are unique."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (declared so by PyYAML)
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":bool", ":float", ":timestamp"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_StrictLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.inf|\.nan)$"),
    list("-+0123456789."),
)


def load_config(schema: type[T], path: Path, overrides: Sequence[str] = ()) -> T:
    """Read a YAML file, apply `a.b=value` overrides, validate.

    Args:
        schema: a pydantic dataclass.
        path: the YAML file.
        overrides: `key=value` with dotted keys; values are read as YAML.

    Raises:
        ConfigurationError: the file is missing or not YAML, a key is unknown (the nearest known one is named), or a
            value has the wrong type or range.
    """
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)
    except FileNotFoundError as error:
        raise ConfigurationError(f"--config {path}: no such file") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path}: cannot be read as YAML: {error}") from error
    if not isinstance(data, dict):
        raise ConfigurationError(f"{path}: expected keys and values, got {type(data).__name__}")
    validated: T = validate(schema, _override(data, overrides, str(path)), str(path))
    return validated


def _override(data: dict[str, Any], overrides: Sequence[str], where: str) -> Any:
    try:
        config = OmegaConf.create(data)
        for item in overrides:
            key, equals, text = item.partition("=")
            if not equals or not key:
                raise ConfigurationError(f"argument {item!r}: expected key=value, for example output=runs/first")
            if not text:  # a variable of the shell without a value; an empty path would be the working directory
                raise ConfigurationError(
                    f"argument {item!r}: expected a value; {key}=null is none, {key}='\"\"' no text"
                )
            value, before = _value(text), OmegaConf.select(config, key)
            both = isinstance(value, dict) and OmegaConf.is_dict(before)  # a list does not merge with a mapping
            OmegaConf.update(config, key, value, merge=both)
        return OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigurationError(f"{where}: {error}") from error


def _value(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError:
        return text  # a glob such as *.warc.gz is no YAML, but it is a fine string


def validate(schema: Any, data: Any, where: str, prefix: str = "") -> Any:
    """Validate plain data against a type, strictly; all mistakes in one message.

    Args:
        schema: a pydantic dataclass, or any type pydantic knows.
        data: plain data.
        where: file or algorithm, named in front of each mistake; may be empty.
        prefix: of the keys in messages, for example `clean.`.
    """
    try:
        text = json.dumps(_with_present_names(schema, data) if _FORMER_NAMES.get() else data)
    except TypeError as error:
        raise ConfigurationError(f"{where}: {error}") from error
    try:
        return TypeAdapter(schema).validate_json(text, strict=True)
    except ValidationError as error:
        head = f"{where}: " if where else ""
        mistakes = [line for item in error.errors() for line in _explain(schema, item, prefix).split("\n")]
        lines = [f"{head}{line}" for line in mistakes]
        raise ConfigurationError("\n".join(dict.fromkeys(lines))) from error


@contextmanager
def former_names() -> Iterator[None]:
    """Accept former names of keys in all that is validated inside: for files that an earlier version wrote."""
    token = _FORMER_NAMES.set(True)
    try:
        yield
    finally:
        _FORMER_NAMES.reset(token)


def renamed_keys(schema: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield (former key, present key), both dotted, for every renamed key below a config class."""
    for inner in _config_classes(schema):
        for former, present in _renamed(inner).items():
            yield f"{prefix}{former}", f"{prefix}{present}"
        for name, kind in _fields(inner).items():
            yield from renamed_keys(kind, f"{prefix}{name}.")


def _renamed(kind: Any) -> dict[str, str]:
    """Return `RENAMED` of a class together with those of its bases."""
    return {old: new for base in kind.__mro__ for old, new in vars(base).get("RENAMED", {}).items()}


def _with_present_names(schema: Any, data: Any) -> Any:
    if isinstance(data, list):
        return [_with_present_names(schema, item) for item in data]
    if not isinstance(data, Mapping):
        return data
    found = dict(data)
    for inner in _config_classes(schema):
        renamed, fields = _renamed(inner), _fields(inner)
        found = dict(_present(renamed, key, value) for key, value in found.items())
        found |= {key: _with_present_names(fields[key], value) for key, value in found.items() if key in fields}
    return found


def _present(renamed: Mapping[str, str], key: str, value: Any) -> tuple[str, Any]:
    """Return an entry under its present name; `{"mode=mask": "mode=skip"}` renames a word that is a value."""
    name, equals, word = renamed.get(f"{key}={value}", renamed.get(key, key)).partition("=")
    return name, word if equals else value


def _explain(schema: Any, error: Any, prefix: str) -> str:
    location = [str(part) for part in error["loc"]]
    key = prefix + ".".join(location)
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        plain = ".".join(part for part in location if not part.isdigit())
        if plain in (renamed := dict(renamed_keys(schema))):
            return f"key '{key}' is called '{prefix}{renamed[plain]}' now"
        near = difflib.get_close_matches(plain, [name for name, *_ in describe(schema)], n=1)
        hint = f"; did you mean '{prefix}{near[0]}'?" if near else "; --help lists the keys"
        return f"unknown key '{key}'{hint}"
    if error["type"] == "missing":
        return f"'{key}' is missing and has no default"
    message = error["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    if error["type"] == "value_error":
        return message if not key or f"'{key}." in message or message.startswith(f"{key}.") else f"{key}: {message}"
    return f"{key}: {message}, got {error['input']!r}"


def describe(schema: Any, prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Every key below a config class: (dotted key, type, default, docstring)."""
    for inner in _config_classes(schema):
        kinds = _fields(inner)
        for field_name, field in inner.__pydantic_fields__.items():
            name = field.alias or field_name
            kind = kinds[name]
            default = "required" if field.is_required() else _short(field.get_default(call_default_factory=True))
            nested = list(describe(kind, f"{prefix}{name}."))
            yield (
                f"{prefix}{name}",
                _type_name(kind),
                "" if nested else default,
                " ".join((field.description or "").split()),
            )
            yield from nested


def _type_name(kind: Any) -> str:
    """A type as a person writes it: `int`, `str or null`, `list of str`, `train or heldout`."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _type_name(parts[0])
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


def _short(value: Any) -> str:
    def named(item: Any) -> str:
        return str(getattr(item, "name", item))  # an algorithm stands for itself by its name

    text = json.dumps(value, default=named) if isinstance(value, (str, list, dict)) else named(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _config_classes(kind: Any) -> list[Any]:
    if dataclasses.is_dataclass(kind) and hasattr(kind, "__pydantic_fields__"):
        return [kind]
    for note in getattr(kind, "__metadata__", ()):
        if callable(schema := getattr(note, "schema", None)):
            return _config_classes(schema())
    return [found for part in get_args(kind) for found in _config_classes(part)]


def _fields(kind: Any) -> dict[str, Any]:
    """Return the annotated type of each key of a config class."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.alias or name: hints[name] for name, field in kind.__pydantic_fields__.items()}


def to_plain(config: Any) -> Any:
    """The resolved configuration as plain data, ready for YAML or JSON."""
    return TypeAdapter(type(config)).dump_python(config, mode="json", by_alias=True)


def config_digest(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of plain data."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def save_yaml(config: Mapping[str, Any], path: Path) -> None:
    """Write plain data as YAML, keys in their own order."""
    path.write_text(yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True), encoding="utf-8")
