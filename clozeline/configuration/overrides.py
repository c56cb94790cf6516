"""Read strict YAML, and apply `key=value` overrides of the command line to it.

YAML is without the traps of version 1.1: `3e-4` is a number, `no` and `12:30` are strings,
duplicate keys are errors.

A value is a word of the shell: where its key takes a text or path, it is one as it stands. Lists
and mappings in brackets and texts in quotes are YAML, as in a file.
"""

import functools
import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from clozeline.configuration.redaction import leaves, remember
from clozeline.configuration.references import find_wrong_reference
from clozeline.errors import ConfigurationError

_NODES: Final = 100_000
"""Values that a YAML text may have, those that aliases repeat included."""
_KEY_PARTS: Final = 32
_TEXT: Final = "tag:yaml.org,2002:str"
_REPLACED: Final = (":bool", ":int", ":float", ":timestamp")
_TYPES: Final[Mapping[str, set[type]]] = {
    "tag:yaml.org,2002:bool": {bool},
    "tag:yaml.org,2002:int": {int, float},
    "tag:yaml.org,2002:float": {float},
}
"""Types that an unquoted word may have in YAML, each with the types of a key that takes it."""
_SCALARS: Final = (str, int, float, bool, Path, NoneType)
_LINE_BREAKS: Final = re.compile("[\x85\u2028\u2029\ufeff]")


class StrictLoader(yaml.SafeLoader):
    """Safe YAML of bounded size, with few implicit types and unique keys.

    Only `true` and `false` are booleans, and `3e-4` is a float.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 (declared so by PyYAML)
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(_REPLACED)]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._count = 0
        self._sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node, within the limit of size.

        What an alias repeats counts again, so a short text does not become a large value.
        """
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        before = self._count
        is_alias = isinstance(event, yaml.AliasEvent)
        node: Any = super().compose_node(parent, index)

        if is_alias and node not in self._sizes:
            raise yaml.composer.ComposerError(
                None, None, "an alias repeats the value that it is in", event.start_mark
            )

        self._count += self._sizes[node] if is_alias else 1
        if self._count > _NODES:
            problem = f"more than {_NODES:,} values, with those that aliases repeat"
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)

        self._sizes.setdefault(node, self._count - before)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        """Return the mapping; a key that is given twice is an error."""
        seen: set[Any] = set()

        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable) or key in seen:
                problem = (
                    f"key {key!r} is given twice"
                    if isinstance(key, Hashable)
                    else "a key is a list or a mapping"
                )
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(key)

        return super().construct_mapping(node, deep)


StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf")
)
# No numbers of base 60 (`12:30`) and no octal ones (`010`), which are rarely meant.
StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^[-+]?(?:0|[1-9][0-9_]*|0b[01_]+|0x[0-9a-fA-F_]+)$"),
    list("-+0123456789"),
)
StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.inf|\.nan)$"
    ),
    list("-+0123456789."),
)


def _tag_of(text: str) -> str:
    """Return the tag of the type that YAML reads a text without quotes as."""
    return str(StrictLoader("").resolve(yaml.ScalarNode, text, (True, False)))  # type: ignore[no-untyped-call]


def parse_yaml(text: str) -> Any:
    """Return the data of a YAML text.

    YAMLError if it is malformed, too large, or gives a key twice.
    """
    try:
        return yaml.load(text, Loader=StrictLoader)
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None
    except ValueError as error:  # a number without digits, such as 0b_
        raise yaml.YAMLError(str(error)) from error


class _StrictDumper(yaml.SafeDumper):
    """Safe YAML that quotes each string which YAML 1.1 or 1.2 would read as another type."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # PyYAML writes a line break that only YAML knows as it is, and reads it as a blank
    style = '"' if _LINE_BREAKS.search(text) else None if _tag_of(text) == _TEXT else "'"
    return dumper.represent_scalar(_TEXT, text, style=style)


_StrictDumper.add_representer(str, _represent_text)


def dump_yaml(data: object) -> str:
    """Return data as a YAML text that `parse_yaml` reads as the same.

    Keys keep their order.
    """
    text: str = yaml.dump(data, Dumper=_StrictDumper, sort_keys=False, allow_unicode=True)
    return text


def override(
    schema: object, data: Mapping[str, object], overrides: Sequence[str], where: str
) -> Any:
    """Return the data of the file `where` with `a.b=value` overrides and references.

    Overrides are applied, then references resolved.

    A mapping is merged into the one that the file has. A key below a list reaches every entry, or
    one by its index: `a.0.b`. Longer keys are applied after shorter ones. A word that is not
    `key=value` is a ConfigurationError.
    """
    try:
        remember(data)
        changed: object = data
        for item in sorted(overrides, key=lambda item: item.partition("=")[0].count(".")):
            changed = _set(schema, changed, *_split(item))
        if (problem := find_wrong_reference(changed)) is not None:
            if overrides:
                override(schema, data, [], where)
            raise ConfigurationError(f"{'command line' if overrides else where}: {problem}")
        if not any("${" in str(value) for _, value in leaves(changed)):
            return changed
        from omegaconf import OmegaConf  # takes a tenth of the start of a command
        from omegaconf.errors import OmegaConfBaseException

        try:
            return OmegaConf.to_container(OmegaConf.create(changed), resolve=True)
        except OmegaConfBaseException as error:
            if overrides:
                override(schema, data, [], where)  # raises where the file is to blame
            origin = "command line" if overrides else where
            raise ConfigurationError(f"{origin}: {error}") from error
    except RecursionError:
        raise ConfigurationError(f"{where}: it is nested too deeply") from None


def _split(item: str) -> tuple[list[str], str]:
    key, equals, text = item.partition("=")

    if not equals or not key:
        raise ConfigurationError(
            f"argument {item!r}: expected key=value, for example output=runs/first"
        )
    # a variable of the shell without a value; an empty path would be the working directory
    if not text:
        raise ConfigurationError(
            f"argument {item!r}: expected a value; write {key}=null for none, {key}='\"\"' for an "
            "empty text"
        )

    keys = key.split(".")
    if len(keys) > _KEY_PARTS or "" in keys:
        raise ConfigurationError(
            f"argument {item!r}: expected a key such as executor.tasks, of {_KEY_PARTS} words or "
            "less; --help lists all"
        )

    remember(parse_word(None, text), *keys)
    return keys, text


def _set(kind: object, node: object, keys: Sequence[str], text: str, depth: int = 0) -> object:
    """Return the value `node` with a word of the command line at a path of keys.

    The path starts at the key `depth`; `node` has the type `kind`.
    """
    if depth == len(keys):
        return merge(kind, node, parse_word(kind, text))
    key = keys[depth]
    path = ".".join(keys[:depth])
    argument = f"argument '{'.'.join(keys)}={text}'"

    if isinstance(node, list):
        item_kind = below(kind, "0")
        if node and not key.isdecimal():
            return [_set(item_kind, item, keys, text, depth) for item in node]
        if not node or int(key) >= len(node):
            raise ConfigurationError(
                f"{argument}: {path} has {len(node)} entries; give {path}=[...]"
            )
        return [
            _set(item_kind, item, keys, text, depth + 1) if index == int(key) else item
            for index, item in enumerate(node)
        ]

    if isinstance(node, str) and node.startswith("${"):
        raise ConfigurationError(f"{argument}: {path} is {node}; set the key that it refers to")
    if isinstance(node, str) and (word := word_key(kind)) is not None:
        node = {word: node}  # `py3langid` is `{name: py3langid}`
    entries = node if isinstance(node, Mapping) else {}
    before = entries.get(key)
    if before is None and depth + 1 < len(keys):
        before = default_of(kind, key)
    return {**entries, key: _set(below(kind, key), before, keys, text, depth + 1)}


def merge(kind: object, before: object, value: object) -> Any:
    """Return a value of type `kind` merged over the one before it, if both are mappings of keys.

    A mapping that chooses an algorithm by its `name`, another `family` of models, and a mapping
    whose keys are names that the user gives or chooses, such as `model.heads`, replace the one
    before them.
    """
    if not isinstance(before, Mapping) or not isinstance(value, Mapping) or "name" in value:
        return value
    is_other_family = (
        "family" in before and value.get("family", before["family"]) != before["family"]
    )
    if is_other_family or any(
        get_origin(alternative) is dict for alternative in alternatives(kind)
    ):
        return value

    return {
        **before,
        **{key: merge(below(kind, key), before.get(key), item) for key, item in value.items()},
    }


def parse_word(kind: Any, text: str) -> Any:
    """Return the value of a word of the command line, for a key of type `kind`.

    None where that is not known.
    """
    is_collection = text.startswith(("[", "{")) and not is_scalar(kind)

    try:
        if is_collection or text.startswith(("'", '"')):
            loader = StrictLoader(text)
            node: Any = loader.get_single_node()
            # 'a' #2 is a text
            return loader.construct_document(node) if node.end_mark.index == len(text) else text
        tag = _tag_of(text)
        scalars = scalars_of(kind)
        is_text = tag in _TYPES and str in scalars and scalars.isdisjoint(_TYPES[tag])
        return text if is_text else StrictLoader("").construct_object(yaml.ScalarNode(tag, text))
    except (
        yaml.YAMLError,
        RecursionError,
        ValueError,
    ):  # a glob such as [ab]*.gz is no YAML, but a good string
        return text


@functools.cache
def fields_of(kind: Any) -> Mapping[str, tuple[Any, Any]]:
    """Return each key of a config class with its annotated type and its field."""
    hints = get_type_hints(kind, include_extras=True)
    fields = kind.__pydantic_fields__.items()
    return {
        field.alias or name: (hints[name], field) for name, field in fields if not field.exclude
    }


def alternatives(kind: Any) -> list[Any]:
    """Return the types in a union, or the one type, without annotations."""
    origin = get_origin(kind)
    parts = get_args(kind)
    if origin is Annotated:
        return alternatives(
            next((note.schema() for note in kind.__metadata__ if hasattr(note, "schema")), parts[0])
        )
    if origin in (Union, UnionType):
        return [alternative for part in parts for alternative in alternatives(part)]
    return [kind]


def below(kind: object, key: str) -> Any:
    """Return the type of a key, entry or list item of a value of type `kind`.

    None where it is not known.
    """
    for alternative in alternatives(kind):
        origin = get_origin(alternative)
        parts = get_args(alternative)
        if origin is dict:
            return parts[1]
        if origin in (list, tuple) and key.isdecimal():
            return parts[0]
        if hasattr(alternative, "__pydantic_fields__") and key in fields_of(alternative):
            return fields_of(alternative)[key][0]
    return None


def default_of(kind: Any, key: str) -> Any:
    """Return the default, as data, of a key that names an algorithm.

    None for other keys, and where it has no default.
    """
    for alternative in alternatives(kind):
        if hasattr(alternative, "__pydantic_fields__") and key in fields_of(alternative):
            default = fields_of(alternative)[key][1].get_default(call_default_factory=True)
            return default.as_dict() if hasattr(default, "as_dict") else None
    return None


def word_key(kind: object) -> str | None:
    """Return the key that a word means where a mapping is expected.

    It is `name` of an algorithm, or `path` of an input.
    """
    for alternative in alternatives(kind):
        if hasattr(alternative, "SHORTHAND_KEY"):
            return str(alternative.SHORTHAND_KEY)
        if get_origin(alternative) is list:
            return word_key(get_args(alternative)[0])
    return None


def scalars_of(kind: object) -> set[Any]:
    """Return the scalar types that a value of type `kind` may have.

    Also as the word that stands for a list or mapping.

    That of a type that is not known, or may be anything, is empty.
    """
    found: set[Any] = set()

    for alternative in alternatives(kind):
        origin = get_origin(alternative)
        if hasattr(alternative, "SHORTHAND_KEY") or alternative is Path:
            found.add(str)
        elif origin in (list, tuple):
            found |= scalars_of(get_args(alternative)[0])
        elif origin is Literal:
            found |= set(map(type, get_args(alternative)))
        elif alternative in _SCALARS:
            found.add(alternative)

    return found


def is_scalar(kind: object) -> bool:
    """Return whether a value of type `kind` is neither a list nor a mapping.

    A type that is not known may be one.
    """
    return all(alternative in _SCALARS for alternative in alternatives(kind))
