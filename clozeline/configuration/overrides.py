"""Read strict YAML, and apply `key=value` overrides of the command line to it.

The YAML lacks the traps of version 1.1: `3e-4` is a number, `no` and `12:30` are strings,
duplicate keys are errors.

The value of an override is a word of the shell. If the key takes a string or a path, the word needs
no quotes. Lists and mappings in brackets, and strings in quotes, are read as YAML, as in a file.
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
from clozeline.errors import ConfigurationError, write_note

_MOST_VALUES: Final = 100_000
"""Maximum number of values in a YAML text; a value that an alias repeats counts again."""
_MOST_KEY_WORDS: Final = 32
"""Maximum number of words in a dotted key."""
_STRING_TAG: Final = "tag:yaml.org,2002:str"
_MOST_CHARACTERS: Final = 1 << 22
"""Maximum length of a YAML text; PyYAML reads two million characters a second."""
_REPLACED_TAGS: Final = (":bool", ":int", ":float", ":timestamp", ":value")
"""Ends of the tags whose patterns of PyYAML are removed; `StrictLoader` gets stricter patterns."""
_JSON_TAGS: Final = ("null", "bool", "int", "float", "str", "seq", "map")
_ACCEPTED_TYPES: Final[Mapping[str, set[type]]] = {
    "tag:yaml.org,2002:bool": {bool},
    "tag:yaml.org,2002:int": {int, float},
    "tag:yaml.org,2002:float": {float},
}
"""For each tag of an unquoted word: types of the keys that accept a value with this tag."""
COMMAND_LINE: Final = "command line"
"""Source of `key=value` words, in messages."""
_SCALARS: Final = (str, int, float, bool, Path, NoneType)
_LINE_BREAKS: Final = re.compile("[\x85\u2028\u2029\ufeff]")


class StrictLoader(yaml.SafeLoader):
    """Safe YAML of bounded size, with few implicit types and unique keys.

    Only `true` and `false`, in any case, are booleans, and `3e-4` is a float.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 (declared so by PyYAML)
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(_REPLACED_TAGS)]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {  # noqa: RUF012 (declared so by PyYAML)
        f"tag:yaml.org,2002:{name}": yaml.SafeLoader.yaml_constructors[f"tag:yaml.org,2002:{name}"]
        for name in _JSON_TAGS
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._count = 0
        self._sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node; more than `_MOST_VALUES` values are an error.

        A value that an alias repeats counts again: a short text cannot become a large value.
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
        if self._count > _MOST_VALUES:
            problem = f"more than {_MOST_VALUES:,} values, with those that aliases repeat"
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)

        self._sizes.setdefault(node, self._count - before)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        """Return the mapping; a repeated key is an error."""
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


def _refuse_tag(loader: StrictLoader, node: yaml.Node) -> None:
    is_merge = node.tag.endswith(":merge")
    problem = (
        "merge keys (<<) are not read: write the keys here, or let `base:` name a file with them"
        if is_merge
        else f"expected text, a number, a list or a mapping, got the tag {node.tag}"
    )
    raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


StrictLoader.add_constructor(None, _refuse_tag)
StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?i:true|false)$"), list("tfTF")
)
# No numbers of base 60 (`12:30`) and no octal numbers (`010`): such words are rarely numbers.
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
    """Return the tag of the type that YAML gives to a text without quotes."""
    return str(StrictLoader("").resolve(yaml.ScalarNode, text, (True, False)))  # type: ignore[no-untyped-call]


def parse_yaml(text: str) -> Any:
    """Return the data of a YAML text.

    Raise YAMLError if the text is malformed or too large, or repeats a key.
    """
    if len(text) > _MOST_CHARACTERS:
        raise yaml.YAMLError(f"expected at most {_MOST_CHARACTERS:,} characters, got {len(text):,}")
    try:
        return yaml.load(text, Loader=StrictLoader)
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None
    except ValueError as error:  # a number without digits, such as 0b_
        raise yaml.YAMLError(str(error)) from error


class _StrictDumper(yaml.SafeDumper):
    """Safe YAML that quotes each string which YAML 1.1 or 1.2 would read as another type."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # PyYAML writes a line break such as U+2028 unquoted, and would read it back as a blank
    style = '"' if _LINE_BREAKS.search(text) else None if _tag_of(text) == _STRING_TAG else "'"
    return dumper.represent_scalar(_STRING_TAG, text, style=style)


_StrictDumper.add_representer(str, _represent_text)


def dump_yaml(data: object) -> str:
    """Return data as a YAML text from which `parse_yaml` reads equal data.

    Keys keep their order.
    """
    text: str = yaml.dump(data, Dumper=_StrictDumper, sort_keys=False, allow_unicode=True)
    return text


def override(
    schema: object, data: Mapping[str, object], overrides: Sequence[str], where: str
) -> Any:
    """Return the data of a file after `a.b=value` overrides, with references resolved.

    `where` is the file name for messages. A mapping is merged into the mapping that the file has. A
    key below a list changes every entry, or only the entry with an index: `a.0.b`. Longer keys are
    applied after shorter keys. Raise ConfigurationError for a word that is not `key=value`.
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
        from omegaconf import OmegaConf  # slow to import
        from omegaconf.errors import OmegaConfBaseException

        try:
            return OmegaConf.to_container(OmegaConf.create(changed), resolve=True)
        except OmegaConfBaseException as error:
            if overrides:
                override(schema, data, [], where)  # raises if the file alone has the error
            origin = COMMAND_LINE if overrides else where
            raise ConfigurationError(
                f"{origin}: {error.full_key}: this reference leads to no value "
                f"({str(error).splitlines()[0]}): write a key that has one"
            ) from error
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
    if len(keys) > _MOST_KEY_WORDS or "" in keys:
        raise ConfigurationError(
            f"argument {item!r}: expected a key such as executor.tasks, of {_MOST_KEY_WORDS} words "
            "or less; --help lists all"
        )

    remember(parse_word(None, text), *keys)
    return keys, text


def _set(kind: object, node: object, keys: Sequence[str], text: str, depth: int = 0) -> object:
    """Return the value `node` after an override: the word `text` replaces the value at `keys`.

    `node` has the type `kind`, and is the value at the first `depth` keys.
    """
    if depth == len(keys):
        value = parse_word(kind, text)
        is_name = isinstance(value, str) and isinstance(node, Mapping)
        if (
            is_name and _registry_of(kind) is not None
        ):  # `schedule=cosine` is `schedule.name=cosine`
            return _set(kind, node, [*keys, "name"], text, depth)
        return merge(kind, node, value)
    key = keys[depth]
    path = ".".join(keys[:depth])
    argument = f"argument '{'.'.join(keys)}={text}'"

    if key == "0" and isinstance(node, str) and word_key(kind):
        node = [node]  # one entry stands for a list
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
    if depth + 1 == len(keys) and key == word_key(kind):
        entries = _drop_unknown_options(kind, entries, text)
    before = entries.get(key)
    if before is None and depth + 1 < len(keys):
        before = default_of(kind, key)
    return {**entries, key: _set(below(kind, key), before, keys, text, depth + 1)}


def _registry_of(kind: object) -> Any:
    """Return the registry of the algorithms that a value of type `kind` names; None without one."""
    kind = _loaded(kind)
    return next(
        (
            note
            for part in (kind, *get_args(kind))
            for note in getattr(part, "__metadata__", ())
            if hasattr(note, "load_class")
        ),
        None,
    )


def _drop_unknown_options(
    kind: object, entries: Mapping[str, object], name: str
) -> Mapping[str, object]:
    """Return an entry without the options that only the algorithm before had, and name these."""
    try:
        known = _registry_of(kind).load_class(name).Options.__dataclass_fields__
    except (AttributeError, ConfigurationError):  # no algorithm, or an unknown one
        return entries
    kept = {key: value for key, value in entries.items() if key in known}
    if dropped := entries.keys() - known - {"name"}:
        values = ", ".join(f"{key}={value}" for key, value in kept.items()) or "none"
        write_note(
            f"{name} has no {', '.join(sorted(dropped))} of {entries.get('name')}: dropped; kept, "
            f"check that they suit it: {values}"
        )
    return kept


def merge(kind: object, before: object, value: object) -> Any:
    """Return a value of type `kind` merged over the value `before`, if both are mappings of keys.

    Three kinds of mapping replace `before` instead: a mapping with the `name` of an algorithm, one
    with another `family` of models, and one whose keys are names that the user chooses, such as
    `model.heads`.
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

    `kind` is None if the type is unknown.
    """
    is_collection = text.startswith(("[", "{")) and not is_scalar(kind)

    try:
        if is_collection or text.startswith(("'", '"')):
            loader = StrictLoader(text)
            node: Any = loader.get_single_node()
            # a quoted string with more behind it, such as 'a' #2, is a string as a whole
            return loader.construct_document(node) if node.end_mark.index == len(text) else text
        tag = _tag_of(text)
        scalars = scalars_of(kind)
        is_text = (
            tag in _ACCEPTED_TYPES and str in scalars and scalars.isdisjoint(_ACCEPTED_TYPES[tag])
        )
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


def loads_class(kind: Any) -> bool:
    """Return whether an annotation imports the class of its values when it is asked: `schema`."""
    return any(hasattr(note, "schema") for note in getattr(kind, "__metadata__", ()))


def _loaded(kind: Any) -> Any:
    """Return the type that an annotation imports when it is asked; itself if it imports none."""
    notes = getattr(kind, "__metadata__", ())
    return next((note.schema() for note in notes if hasattr(note, "schema")), kind)


def alternatives(kind: Any) -> list[Any]:
    """Return the types in a union, or the one type, without annotations."""
    origin = get_origin(kind)
    parts = get_args(kind)
    if origin is Annotated:
        loaded = _loaded(kind)
        return alternatives(parts[0] if loaded is kind else loaded)
    if origin in (Union, UnionType):
        return [alternative for part in parts for alternative in alternatives(part)]
    return [kind]


def below(kind: object, key: str) -> Any:
    """Return the type of a key, entry or list item of a value of type `kind`, None if unknown."""
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

    Return None for any other key, and for a key without a default.
    """
    for alternative in alternatives(kind):
        if hasattr(alternative, "__pydantic_fields__") and key in fields_of(alternative):
            default = fields_of(alternative)[key][1].get_default(call_default_factory=True)
            return default.as_dict() if hasattr(default, "as_dict") else None
    return None


def word_key(kind: object) -> str | None:
    """Return the key of a mapping for which a single word may stand.

    The key is `name` for an algorithm, and `path` for an input.
    """
    for alternative in alternatives(kind):
        if hasattr(alternative, "SHORTHAND_KEY"):
            return str(alternative.SHORTHAND_KEY)
        if get_origin(alternative) is list:
            return word_key(get_args(alternative)[0])
    return None


def scalars_of(kind: object) -> set[Any]:
    """Return the scalar types that a value of type `kind` may have.

    They include the type of a word that stands for a list or mapping. Of an unknown type, and of a
    type that allows any value, the set is empty.
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
    """Return whether a value of type `kind` is certainly neither a list nor a mapping."""
    return all(alternative in _SCALARS for alternative in alternatives(kind))
