"""Read configurations: strict YAML, dotted overrides, validation by pydantic dataclasses.

Traps of YAML 1.1 are avoided: `3e-4` is a number, `no` and `on` are strings, duplicate keys are errors.

A class that may be written as a word names the key that it means: `WORD: ClassVar = "path"`. A class whose mapping is
written inline, next to its other keys, lists its key: `BESIDE: ClassVar = {"objective": "name"}`.
"""

import dataclasses
import difflib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar, cast, dataclass_transform

import yaml
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from clozeline import HOME
from clozeline.configuration.composition import compose
from clozeline.configuration.overrides import override
from clozeline.configuration.redaction import MASK, iter_masked_keys, redact, remember, without_masks
from clozeline.configuration.schema import describe as describe
from clozeline.configuration.schema import iter_keys, iter_unknown_keys
from clozeline.configuration.strict_yaml import dump_yaml, parse_yaml
from clozeline.errors import ConfigurationError

T = TypeVar("T")

_STRICT: Final = ConfigDict(extra="forbid", arbitrary_types_allowed=True, defer_build=True)
_FEW_KEYS: Final = 8
"""Keys that a message about an unknown one lists."""
_RECIPES: Final = HOME / "configs" / "recipes"


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field, Field))
def config_class(cls: type[T]) -> type[T]:
    """Make a class one of options: a frozen dataclass with keyword arguments.

    Its types are checked, unknown keys are errors, and the docstring below a field describes it.
    """
    return cast(type[T], dataclass(frozen=True, kw_only=True, config=_STRICT)(cls))


_adapters: Final[dict[Any, TypeAdapter[Any]]] = {}


def adapter_of(kind: type[T]) -> TypeAdapter[T]:
    """Return pydantic's adapter of a class, kept: to build its schema, with all classes in it, takes milliseconds."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def config_file(location: str, kind: str) -> Path:
    """Return the file that `--config` names: a path, or `recipe:NAME` for a recipe that comes with Clozeline.

    A recipe is a folder with a file of this kind, or one file with a part for each command.
    """
    name = location.removeprefix("recipe:")
    if name == location:
        return Path(location)
    recipes = {str(path.parent.relative_to(_RECIPES)): path for path in _RECIPES.rglob(kind)}
    recipes |= {str(path.relative_to(_RECIPES).with_suffix("")): path for path in _RECIPES.glob("tasks/*.yaml")}
    if name not in recipes:
        known = ", ".join(sorted(recipes))
        raise ConfigurationError(f"--config {location}: no recipe '{name}' with a {kind}; known: {known}")
    return recipes[name]


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a YAML file of keys and values; ConfigurationError if it is missing or holds anything else."""
    try:
        data = parse_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigurationError(f"--config {path}: no such file") from error
    except yaml.MarkedYAMLError as error:  # its own text quotes the line, which may hold a secret
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigurationError(f"{path}: cannot be read as YAML: {error.problem}{line}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path}: cannot be read as YAML: {error}") from error
    if not isinstance(data, dict):
        raise ConfigurationError(f"{path}: expected keys and values, got {type(data).__name__}")
    return data


def read_composed(schema: Any, path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the keys of a file, merged over those of its base and changed by `variant=NAME`."""
    return compose(schema, path, overrides, read_mapping)[0]


def load_config(schema: type[T], path: Path, overrides: Sequence[str] = (), *, recorded: bool = False) -> T:
    """Read a YAML file, apply `a.b=value` overrides (the values are YAML), validate.

    In a file that a run has `recorded`, secrets are masked: they count as not given.

    ConfigurationError if the file is missing or not YAML, a key is unknown (the nearest known one is named), or a value
    has the wrong type or range. A mistake that the file alone does not have is one of the command line.
    """
    data, overrides = (read_mapping(path), overrides) if recorded else compose(schema, path, overrides, read_mapping)
    remember(data)
    resolved = override(schema, data, overrides, str(path))
    remember(resolved)
    if recorded:
        resolved = without_masks(resolved)
    elif (masked := next(iter_masked_keys(resolved), None)) is not None:
        raise ConfigurationError(
            f"{path}: {masked}: {MASK} marks a secret that was left out when the file was written: give it on the "
            f"command line, or take it from the environment, such as {masked}: ${{oc.env:NAME}}"
        )
    unknown = _name_unknown_keys(schema, resolved, "")
    value: Any
    value, mistakes = (None, unknown) if unknown else _validate(schema, resolved, "")
    if mistakes:
        in_file = [] if overrides else mistakes
        with suppress(ConfigurationError):  # without overrides, a reference in the file may lead nowhere
            alone = override(schema, data, [], str(path)) if overrides else {}
            in_file = in_file or (_name_unknown_keys(schema, alone, "") if unknown else _validate(schema, alone, "")[1])
        lines = [f"{path if line in in_file else 'command line'}: {line}" for line in mistakes]
        raise ConfigurationError("\n".join(lines))
    validated: T = value
    return validated


def validate(schema: Any, data: Any, where: str, prefix: str = "") -> Any:
    """Validate plain data against a type, strictly; all unknown keys in one message, or else all mistakes.

    `where` is the file or algorithm, named in front of each mistake; `prefix` that of the keys in messages, for example
    `clean.`.
    """
    unknown = _name_unknown_keys(schema, data, prefix)
    value, mistakes = (None, unknown) if unknown else _validate(schema, data, prefix)
    if mistakes:
        head = f"{where}: " if where else ""
        raise ConfigurationError("\n".join(f"{head}{line}" for line in mistakes))
    return value


def _name_unknown_keys(schema: Any, data: Any, prefix: str) -> list[str]:
    """Return a line for each unknown key; found without the algorithms that values name, whose import takes seconds."""
    unknown = iter_unknown_keys(schema, data)
    return [_explain(schema, {"type": "extra_forbidden", "loc": key}, prefix) for key in unknown]


def _validate(schema: Any, data: Any, prefix: str) -> tuple[Any, list[str]]:
    """Return the validated value, and the mistakes, one per line; the value is valid if there are none."""
    try:
        text = json.dumps(data)
    except TypeError as error:
        return None, [str(error)]
    try:
        adapter = adapter_of(schema) if isinstance(schema, type) else TypeAdapter(schema)
        return adapter.validate_json(text, strict=True), []
    except ValidationError as error:
        lines = [line for item in error.errors() for line in _explain(schema, item, prefix).split("\n")]
        return None, list(dict.fromkeys(lines))


def _explain(schema: Any, error: Any, prefix: str) -> str:
    location = [str(part) for part in error["loc"]]
    key = (prefix + ".".join(location)).removesuffix(".")
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        plain = ".".join(part for part in location if not part.isdigit())
        known = [name for name, *_ in iter_keys(schema)]
        # the same last word elsewhere, or the nearest one among the keys of the class, or else of all
        path, _, last = plain.rpartition(".")
        words = {name.rpartition(".")[2]: name for name in reversed(known)}
        siblings = {name.rpartition(".")[2]: name for name in known if name.rpartition(".")[0] == path}
        close = (of[word] for of in (siblings, words) for word in difflib.get_close_matches(last, of, n=1))
        near = words.get(last) or next(close, None)
        every = f"; it has {', '.join(siblings)}" if 0 < len(siblings) <= _FEW_KEYS else "; --help lists the keys"
        hint = f"; did you mean '{prefix}{near}'?" if near else every
        return f"unknown key '{key}'{hint}"
    if error["type"] == "missing":
        return f"'{key}' is missing and has no default"
    message = error["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    key = re.sub(r"\.(constrained-\w+|literal\[.*\])$", "", key)  # pydantic's name of one of several types
    if error["type"] == "value_error":
        named = not key or f"'{key}." in message or message.startswith((f"{key}.", f"{key}:"))
        return message if named else f"{key}: {message}"
    return f"{key}: {message}, got {error['input']!r}"


def to_plain(config: Any) -> Any:
    """Return the resolved configuration as plain data, ready for YAML or JSON."""
    return adapter_of(type(config)).dump_python(config, mode="json", by_alias=True)


def flatten(plain: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one mapping with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in plain.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def config_digest(value: Any) -> str:
    """Return the SHA-256 (hex) of the canonical JSON of plain data."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def save_yaml(config: Mapping[str, Any], path: Path) -> None:
    """Write plain data as YAML without its secrets, keys in their own order."""
    path.write_text(yaml_text(config), encoding="utf-8")


def yaml_text(config: Mapping[str, Any]) -> str:
    """Return plain data as YAML without its secrets, keys in their own order."""
    return dump_yaml(redact(config))
