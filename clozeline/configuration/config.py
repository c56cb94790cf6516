"""Read configurations: strict YAML, dotted overrides, validation by pydantic dataclasses.

Traps of YAML 1.1 are avoided: `3e-4` is a number, `no` and `on` are strings, duplicate keys are
errors.

A file may have parts for several commands (`pipeline:` and `train:`, the `PART` of their classes),
build on one that is shipped or your own (`base: tiny`, `base: ../train.yaml`), and name variants of
itself (`variants: {tiny: {...}}`, `variant=tiny`).

A class that may be written as a word names the key that it means: `SHORTHAND_KEY: ClassVar =
"path"`. A class whose mapping is written inline, next to its other keys, lists its key:
`INLINE_KEYS: ClassVar = {"objective": "name"}`. If the options of an algorithm are next to its own
keys, it names the key with the algorithm, and the registry: `OPTIONS_OF: ClassVar = ("reader",
READERS)`.
"""

import dataclasses
import difflib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar, cast, dataclass_transform

import yaml
from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from clozeline import HOME
from clozeline.configuration.described_keys import describe
from clozeline.configuration.named_algorithms import allow_named, allow_words
from clozeline.configuration.overrides import (
    COMMAND_LINE,
    below,
    dump_yaml,
    fields_of,
    loads_class,
    merge,
    override,
    parse_yaml,
)
from clozeline.configuration.paths import HOME_EXPANDED as HOME_EXPANDED
from clozeline.configuration.paths import LocalPath as LocalPath
from clozeline.configuration.paths import refusal_of_special
from clozeline.configuration.redaction import leaves, redact, remember, without_masks
from clozeline.configuration.words_elsewhere import translate_key, translate_value
from clozeline.errors import ConfigurationError
from clozeline.extension_list import list_extensions

T = TypeVar("T")

_MAY_CHANGE: Final = object()
MayChange: TypeAlias = Annotated[T, _MAY_CHANGE]
"""Type of a key that a resumed run may change, with all keys below it: `MayChange[int]`."""
_ONLY_TRAINING: Final = object()
OnlyTraining: TypeAlias = Annotated[T, _ONLY_TRAINING]
"""Type of a key that does not change what given weights compute in evaluation mode."""
_STRICT: Final = ConfigDict(
    extra="forbid", arbitrary_types_allowed=True, defer_build=True, allow_inf_nan=False
)
_UNKNOWN: Final = ("unexpected_keyword_argument", "extra_forbidden")
_OF_KEYS: Final = ("dataclass_type", "dataclass_exact_type")
"""Types of pydantic's errors about a key that a class lacks."""
_OF_WORDS: Final = ("literal_error", "string_type")
"""Types of errors of words, which a number need not be told."""
_COMPARISONS: Final = {"greater than or equal to": "at least", "less than or equal to": "at most"}
"""Words of pydantic's messages, and ours."""
_FEW_KEYS: Final = 16
"""Keys that a message about an unknown one lists."""
_RECIPES: Final = HOME / "configs" / "recipes"
_BASES: Final = HOME / "configs" / "bases"
_PART_MARKERS: Final = {
    "pipeline": {"clean", "dedup", "encode", "group"},
    "train": {"model", "optimizer", "data"},
}
"""Parts of a file, and the keys by which a file of one command is known where it is given to
another one. Extensions declare theirs."""
_MOST_BASES: Final = 8


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field, Field)
)
def config_class(cls: type[T]) -> type[T]:
    """Make a class one of options: a frozen dataclass with keyword arguments.

    Its types are checked, unknown keys are errors, and the docstring below a field describes it.
    """
    return cast(type[T], dataclass(frozen=True, kw_only=True, config=_STRICT)(cls))


@config_class
class NoOptions:
    """Options of an algorithm that has none."""


ONE_OR_MORE: Final = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
"""Annotation of a key with a list of texts or paths, which may also be one of them."""
Names: TypeAlias = Annotated[list[str], ONE_OR_MORE]
"""Names, such as those of columns."""


def added_later(default: Any) -> Any:
    """Return the default of a key that earlier versions lack.

    Data have the key only where it differs: a new key must not remake the units of earlier runs.
    """
    return Field(default, exclude_if=lambda value: bool(value == default))


Natural: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 63)]
Positive: TypeAlias = Annotated[int, Field(ge=1, lt=1 << 63)]
"""Integers that arrays hold; a larger seed would be another one."""
Seconds: TypeAlias = Annotated[float, Field(ge=0, le=31_536_000)]
"""A time of a year or less, which every clock and library takes."""

_adapters: Final[dict[Any, TypeAdapter[Any]]] = {}


def adapter_of(kind: type[T]) -> TypeAdapter[T]:
    """Return pydantic's adapter of a class, from a cache.

    To build its schema, with all classes in it, takes milliseconds.
    """
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def config_file(location: str, kind: str) -> Path:
    """Return the file that `--config` names.

    It is a path, or `recipe:NAME` for a recipe that comes with Clozeline.

    A recipe is a folder with a file of this kind, or one file with a part for each command.
    """
    name = location.removeprefix("recipe:")
    if name == location:
        return Path(location)
    recipes = {str(path.parent.relative_to(_RECIPES)): path for path in _RECIPES.rglob(kind)}
    recipes |= {
        str(path.relative_to(_RECIPES).with_suffix("")): path
        for path in _RECIPES.glob("tasks/*.yaml")
    }

    if name not in recipes:
        folder, _, last = name.rpartition("/")
        # the last words alone: all tasks share their folder, which makes any two of them similar
        words = {
            recipe.rpartition("/")[2]: recipe
            for recipe in recipes
            if recipe.rpartition("/")[0] == folder
        }

        near = difflib.get_close_matches(last, words, n=1, cutoff=0.75)
        hint = (
            f"did you mean 'recipe:{words[near[0]]}'?"
            if near
            else f"known: {', '.join(sorted(words.values() or recipes))}"
        )

        raise ConfigurationError(f"--config {location}: no recipe '{name}' with a {kind}; {hint}")

    return recipes[name]


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a YAML file of keys and values.

    Secrets that were masked when it was written count as not given.

    ConfigurationError if it is missing or holds anything else.
    """
    if (refusal := refusal_of_special(path)) is not None:
        raise ConfigurationError(f"--config {refusal}")
    if path.is_dir():
        raise ConfigurationError(
            f"--config {path}: expected a YAML file, got a folder; name the file in it"
        )

    try:
        data = parse_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigurationError(f"--config {path}: no such file; name one that exists") from error
    except yaml.MarkedYAMLError as error:  # its own text quotes the line, which may hold a secret
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigurationError(
            f"{path}: cannot be read as YAML: {error.problem}{line}"
        ) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path}: cannot be read as YAML: {error}") from error

    if not isinstance(data, dict):
        raise ConfigurationError(f"{path}: expected keys and values, got {type(data).__name__}")
    return cast(dict[str, Any], without_masks(data))


def read_composed(schema: object, path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the keys of a file, merged over those of its base and changed by `variant=NAME`."""
    return _compose(schema, path, overrides)[0]


def _compose(schema: Any, path: Path, overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the keys of a file and its bases, and the overrides without `variant=`.

    The keys are for a class of options.

    A mapping is merged into that of the base as by an override: an algorithm with its `name`, and a
    mapping whose keys are names, replace it.

    Raises:
        ConfigurationError: a base or variant does not exist, bases lead in a circle, or the file
            has no such part.
    """
    chosen = [word.removeprefix("variant=") for word in overrides if word.startswith("variant=")]
    others = [word for word in overrides if not word.startswith("variant=")]
    data = _with_base(schema, _take_part(schema, read_mapping(path), path), path)
    variants = data.pop("variants", {}) if below(schema, "variants") is None else {}
    if not isinstance(variants, Mapping):
        raise ConfigurationError(f"{path}: variants: expected a mapping of names, got {variants!r}")
    for name in chosen:
        if not isinstance(keys := variants.get(name), Mapping):
            known = ", ".join(map(str, variants)) or "it has none"
            raise ConfigurationError(f"{path}: no variant '{name}'; known: {known}")
        data = merge(schema, data, _with_base(schema, dict(keys), path))

    return data, others


def _take_part(schema: object, data: dict[str, object], path: Path) -> dict[str, Any]:
    """Return the part of a file that belongs to a class of options; a file without parts is one."""
    name = getattr(schema, "PART", "")
    markers = {**_PART_MARKERS}
    for each in list_extensions():
        for command, keys in each.parts.items():
            markers[command] = markers.get(command, set()) | keys

    if not data or not set(data) <= markers.keys():
        of = next((command for command, keys in markers.items() if keys & set(data)), name)
        if name and of != name and not markers[name] & set(data):
            raise ConfigurationError(
                f"{path}: is a recipe of `clozeline {of}`, not of `{name}`; run: clozeline {of} "
                f"--config {path}"
            )
        return data

    part = data.get(name)
    if not isinstance(part, dict):
        raise ConfigurationError(f"{path}: expected the key '{name}', got {', '.join(data)}")
    return part


def _with_base(schema: Any, data: dict[str, Any], path: Path, depth: int = 0) -> dict[str, Any]:
    """Return the keys of a file merged over those of its `base`.

    The base is a name in configs/bases, or a path next to the file.
    """
    if "base" not in data:
        return data
    name = data["base"]
    if not isinstance(name, str) or depth == _MOST_BASES:
        problem = (
            f"expected a name or a path, got {name!r}"
            if depth < _MOST_BASES
            else "the files lead in a circle"
        )
        raise ConfigurationError(f"{path}: base: {problem}")

    file = path.parent / name if name.endswith((".yaml", ".yml")) else _BASES / f"{name}.yaml"
    if not file.is_file():
        shipped = ", ".join(sorted(found.stem for found in _BASES.glob("*.yaml")))
        raise ConfigurationError(
            f"{path}: base: {file}: no such file; expected a path ending in .yaml, or: {shipped}"
        )

    lower = _with_base(schema, _take_part(schema, read_mapping(file), file), file, depth + 1)
    # variants of the base are for its own users, unless the schema has a key of this name
    dropped = {"variants"} if below(schema, "variants") is None else set()
    inherited = {key: value for key, value in lower.items() if key not in dropped}
    merged: dict[str, Any] = merge(
        schema, inherited, {key: value for key, value in data.items() if key != "base"}
    )
    return merged


def load_config(
    schema: type[T], path: Path, overrides: Sequence[str] = (), *, is_users: bool = False
) -> T:
    """Read a YAML file, apply `a.b=value` overrides, validate.

    Only the values of overrides, and of a file that is the user's own, allow the import of
    algorithms that they name.

    ConfigurationError if the file is missing or not YAML, a key is unknown (the nearest known one
    is named), or a value has the wrong type or range. A mistake that the file alone does not have
    is one of the command line.
    """
    data, overrides = _compose(schema, path, overrides)
    resolved = override(schema, data, overrides, str(path))
    remember(resolved)

    value: Any = None
    check: Callable[[Any, Any], tuple[Any, list[str]]] = _validate_light
    mistakes = check(schema, resolved)[1]

    if not mistakes:
        check = _validate
        if is_users:
            allow_named(schema, resolved)
        else:
            allow_words(schema, overrides)
        value, mistakes = check(schema, resolved)

    if mistakes:
        in_file = [] if overrides else mistakes
        # without overrides, a reference in the file may lead nowhere
        with suppress(ConfigurationError):
            in_file = in_file or check(schema, override(schema, data, [], str(path)))[1]
        lines = [f"{path if line in in_file else COMMAND_LINE}: {line}" for line in mistakes]
        raise ConfigurationError("\n".join(lines))

    return cast(T, value)


def load_keys(schema: type[T], data: Mapping[str, object], overrides: Sequence[str]) -> T:
    """Validate keys that a command brings itself, with `a.b=value` overrides.

    This is `load_config` without a file.
    """
    resolved = apply_words(schema, data, overrides)
    remember(resolved)
    return cast(T, validate(schema, resolved, COMMAND_LINE))


def apply_words(
    schema: Any, data: Mapping[str, object], overrides: Sequence[str]
) -> dict[str, Any]:
    """Return data with `a.b=value` words of the user applied, not yet validated.

    The words allow the import of the algorithms that they name.
    """
    allow_words(schema, overrides)
    changed: dict[str, Any] = override(schema, data, overrides, COMMAND_LINE)
    return changed


def validate(schema: Any, data: Any, where: str, prefix: str = "") -> Any:
    """Validate data against a type, strictly; all mistakes in one message.

    `where` is the file or algorithm, named in front of each mistake; `prefix` that of the keys in
    messages, for example `clean.`.
    """
    value, mistakes = _validate(schema, data, prefix)
    if mistakes:
        head = f"{where}: " if where else ""
        raise ConfigurationError("\n".join(f"{head}{line}" for line in mistakes))
    return value


def check_arguments(schema: Any, where: str, **values: Any) -> Any:
    """Validate arguments of a Python function as keys; numbers of numpy count as Python's."""
    plain = {
        name: value.item() if hasattr(value, "item") else value for name, value in values.items()
    }
    return validate(schema, plain, where)


def _validate_light(schema: Any, data: Mapping[str, object]) -> tuple[None, list[str]]:
    """Return the unknown keys outside of the parts whose classes are imported when they are read.

    `_validate` would name the same keys alone, but only after it has imported all those parts and
    the algorithms in them.
    """
    if not isinstance(schema, type):  # such as dict[str, Any], which has no unknown keys
        return None, []
    parts = {name for name, (kind, _) in fields_of(schema).items() if loads_class(kind)}
    if not parts & data.keys():
        return None, []
    others = {key: value for key, value in data.items() if key not in parts}
    return None, _validate(schema, others, only_unknown=True)[1]


def _validate(
    schema: Any, data: Any, prefix: str = "", *, only_unknown: bool = False
) -> tuple[Any, list[str]]:
    """Return the validated value, and the mistakes, one per line.

    The value is valid if there are none. `only_unknown` keeps only unknown keys of the mistakes.
    """
    try:
        text = json.dumps(data, ensure_ascii=False).encode()
    except (TypeError, UnicodeEncodeError) as error:
        return None, [
            f"{prefix}{'.'.join(keys)}: expected text, a number, true, false or null, got {value!r}"
            for keys, value in leaves(data)
            if not _is_json([keys, value])
        ] or [str(error)]

    try:
        adapter = adapter_of(schema) if isinstance(schema, type) else TypeAdapter(schema)
        return adapter.validate_json(text, strict=True), []
    except ValidationError as error:
        # a misspelled key explains what is missing
        unknown = [item for item in error.errors() if item["type"] in _UNKNOWN]
        mistakes = unknown if unknown or only_unknown else error.errors()
        needs_keys = any(item["type"] in _UNKNOWN + _OF_KEYS for item in mistakes)
        known = [name for name, *_ in describe(schema)] if needs_keys else []
        data = json.loads(text)  # keys are strings here, as in the mistakes
        by_key: dict[str, list[Any]] = {}
        for item in mistakes:
            by_key.setdefault(_key_of(item, data), []).append(item)
        lines = [
            line for key, items in by_key.items() for line in _explain(known, key, items, prefix)
        ]
        return None, list(dict.fromkeys(lines))


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (TypeError, UnicodeEncodeError):
        return False
    return True


def _key_of(error: Any, data: Any) -> str:
    """Return the dotted key of a mistake.

    It is the path in the data, without the types of a union that pydantic adds.
    """
    parts = []
    *above, last = error["loc"] or ("",)

    for part in above:
        if (isinstance(data, Mapping) and part in data) or (
            isinstance(data, list) and isinstance(part, int)
        ):
            parts.append(str(part))
            data = data[part]

    is_named = (
        error["type"] == "missing"
        or (isinstance(data, Mapping) and last in data)
        or isinstance(last, int)
    )

    return ".".join([*parts, str(last) or '""'] if is_named else parts)


def _explain(known: Sequence[str], key: str, errors: Sequence[Any], prefix: str) -> Iterator[str]:
    """Yield what is wrong with a key in one sentence.

    All its types come in one; an unknown key comes with the nearest known one.

    Of a union, types are named only where the value has none of them, and words only for a word.
    """
    full = (prefix + key).removesuffix(".")
    is_word = isinstance(errors[0]["input"], str)
    fitting = [
        error
        for error in errors
        if error["type"] not in _OF_KEYS and (is_word or error["type"] not in _OF_WORDS)
    ]

    expected = []

    for error in fitting or errors:
        message = error["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
        for theirs, ours in _COMPARISONS.items():
            message = message.replace(theirs, ours)
        is_share = error["type"] == "less_than_equal" and isinstance(error["ctx"]["le"], float)
        if is_share and error["ctx"]["le"] == 1:
            message = "expected a share of at most 1, such as 0.15 for 15 %"
        if error["type"] in _UNKNOWN:
            named_keys = ".".join(part for part in key.split(".") if not part.isdigit())
            yield f"unknown key '{full}'{_hint(known, named_keys, prefix)}"
        elif error["type"] == "missing":
            yield f"'{full}' is missing and has no default"
        elif error["type"] == "value_error":
            is_named = (
                not full or f"'{full}." in message or message.startswith((f"{full}.", f"{full}:"))
            )
            yield from (message if is_named else f"{full}: {message}").split("\n")
        elif message.startswith("expected "):
            expected.append(message.removeprefix("expected "))
        else:
            yield f"{full}: {message}, got {error['input']!r}"

    below = [f"{prefix}{name}" for name in known if name.startswith(f"{key}.")]
    if below and not fitting:
        expected = [f"keys ({', '.join(below[:_FEW_KEYS])})"]
    if expected:
        got = f"{errors[0]['input']!r}{translate_value(full, errors[0]['input'])}"
        yield f"{full}: expected {' or '.join(dict.fromkeys(expected))}, got {got}"


def _hint(known: Sequence[str], key: str, prefix: str) -> str:
    """Return what another program's key is called here, or the nearest known key.

    A known key with the same last word comes first.
    """
    path, _, last = key.rpartition(".")
    if (translated := translate_key(last, known, prefix)) is not None:
        return f"; {translated}"
    words = {name.rpartition(".")[2]: name for name in reversed(known)}
    siblings = {name.rpartition(".")[2]: name for name in known if name.rpartition(".")[0] == path}
    close = (
        of[word] for of in (siblings, words) for word in difflib.get_close_matches(last, of, n=1)
    )
    if (near := words.get(last) or next(close, None)) is not None:
        return f"; did you mean '{prefix}{near}'?"
    return (
        f"; the keys here are {', '.join(siblings)}"
        if 0 < len(siblings) <= _FEW_KEYS
        else "; --help lists the keys"
    )


def to_data(config: object) -> Any:
    """Return the resolved configuration as data, ready for YAML or JSON."""
    return adapter_of(type(config)).dump_python(config, mode="json", by_alias=True)


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one mapping with dotted keys."""
    flat: dict[str, object] = {}
    for key, value in data.items():
        flat |= (
            flatten(value, f"{prefix}{key}.")
            if isinstance(value, dict)
            else {f"{prefix}{key}": value}
        )
    return flat


def computing_keys(config: Any) -> dict[str, Any]:
    """Return the values of a configuration, by key, without those of `OnlyTraining`."""
    return {
        name: getattr(config, name)
        for name, field in type(config).__pydantic_fields__.items()
        if _ONLY_TRAINING not in field.metadata
    }


def fixed_keys(config: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a configuration without the keys that a resumed run may change."""
    fixed: dict[str, Any] = {}
    fields = {
        field.alias or name: (name, field)
        for name, field in type(config).__pydantic_fields__.items()
    }

    for key, value in data.items():
        name, field = fields[key]
        if _MAY_CHANGE not in field.metadata:
            inner = getattr(config, name)
            has_keys = hasattr(type(inner), "__pydantic_fields__") and isinstance(value, dict)
            fixed[key] = fixed_keys(inner, value) if has_keys else value

    return fixed


def config_digest(value: Any) -> str:
    """Return the SHA-256 (hex) of the canonical JSON of data."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def save_yaml(config: Mapping[str, Any], path: Path) -> None:
    """Write data as YAML without its secrets, keys in their own order."""
    path.write_text(yaml_text(config), encoding="utf-8")


def yaml_text(config: Mapping[str, object]) -> str:
    """Return data as YAML without its secrets, keys in their own order."""
    return dump_yaml(redact(config))
