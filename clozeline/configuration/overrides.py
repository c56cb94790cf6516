"""Apply command-line overrides `key=value` to the content of a configuration file.

A mapping is merged into the one that the file has, with two exceptions that replace it: a mapping with a `name`, which
chooses an algorithm, and a mapping whose keys are names, such as that of `model.heads`.

A value is a word of the shell: it has no comments, and where its key takes a text or path, it is one as it stands.
Lists and mappings are YAML in brackets.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any, Final

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from clozeline.configuration.redaction import remember
from clozeline.configuration.schema import below, default_of, holds_entries, maps_names, scalars_of, word_key
from clozeline.configuration.strict_yaml import StrictLoader
from clozeline.errors import ConfigurationError

_TEXT: Final = "tag:yaml.org,2002:str"
_TYPES: Final[Mapping[str, set[type]]] = {
    "tag:yaml.org,2002:bool": {bool},
    "tag:yaml.org,2002:int": {int, float},
    "tag:yaml.org,2002:float": {float},
}
"""Types that a plain word may have in YAML, each with the types of a key that takes it."""


def override(schema: Any, data: dict[str, Any], overrides: Sequence[str], where: str) -> Any:
    """Return the data of the file `where` with `a.b=value` overrides applied and references resolved.

    `a.b=null` removes an entry of a mapping of names. A key below a list reaches every entry, or one by its index:
    `a.0.b`. Longer keys are applied after shorter ones. A word that is not `key=value`, or names no key, is a
    ConfigurationError.
    """
    if not overrides and _is_resolved(data):
        return deepcopy(data)
    config = _apply_all(schema, data, overrides, where)
    try:
        return OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        if overrides:
            override(schema, data, [], where)  # raises where the file is to blame
        raise ConfigurationError(f"{'command line' if overrides else where}: {error}") from error


def _is_resolved(data: Any) -> bool:
    """Return whether data is of plain types that OmegaConf gives back as they are, without references."""
    if isinstance(data, dict):
        return all(type(key) is str and _is_resolved(value) for key, value in data.items())
    if isinstance(data, list):
        return all(map(_is_resolved, data))
    return data is None or (isinstance(data, (str, bool, int, float)) and not (isinstance(data, str) and "${" in data))


def _apply_all(schema: Any, data: dict[str, Any], overrides: Sequence[str], where: str) -> Any:
    item = ""
    try:
        config = OmegaConf.create(data)
        for item in sorted(overrides, key=lambda item: item.partition("=")[0].count(".")):
            key, text = _split(item)
            nested: Any = parse_word(None, text)
            for part in reversed(key.split(".")):
                nested = {part: nested}
            remember(nested)
            for dotted in _expand_key(schema, config, key.split(".")):
                _apply(schema, config, dotted, text)
    except OmegaConfBaseException as error:
        raise ConfigurationError(f"{f'argument {item!r}' if item else where}: {error}") from error
    return config


def _split(item: str) -> tuple[str, str]:
    key, equals, text = item.partition("=")
    if not equals or not key:
        raise ConfigurationError(f"argument {item!r}: expected key=value, for example output=runs/first")
    if not text:  # a variable of the shell without a value; an empty path would be the working directory
        raise ConfigurationError(f"argument {item!r}: expected a value; {key}=null is none, {key}='\"\"' no text")
    return key, text


def parse_word(kind: Any, text: str) -> Any:
    """Return the value of a word of the command line, for a key of type `kind`; None where that is not known."""
    letter = next(letter for letter in map(chr, range(0xE000, 0xF900)) if letter not in text)
    with suppress(yaml.YAMLError, RecursionError, ValueError):  # a glob such as *.warc.gz is no YAML, but a good string
        loader = StrictLoader(text.replace("#", letter))
        if (node := loader.get_single_node()) is not None:
            _settle(kind, node, letter)
            if _is_yaml(kind, node, text.strip()[0]):
                return loader.construct_document(node)
    return text


def _settle(kind: Any, node: yaml.Node, letter: str) -> None:
    """Put `#` in place of the letter that hid it from the parser, and make texts of numbers where only texts fit."""
    if isinstance(node, yaml.ScalarNode):
        node.value = node.value.replace(letter, "#")
        fitting, scalars = _TYPES.get(node.tag), scalars_of(kind)
        if not node.style and fitting and str in scalars and scalars.isdisjoint(fitting):
            node.tag = _TEXT
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _settle(below(kind, "0"), item, letter)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            _settle(None, key, letter)
            _settle(below(kind, str(key.value)), value, letter)


def _is_yaml(kind: Any, node: yaml.Node, first: str) -> bool:
    """Return whether a word with this first character is more than a text: typed, in quotes or in brackets."""
    if isinstance(node, yaml.ScalarNode):
        return first in "'\"" if node.style else node.tag != _TEXT and node.value != ""
    is_known = kind not in (None, Any) and str not in scalars_of(kind)
    return holds_entries(kind) and (first in "[{" or is_known)


def _expand_key(schema: Any, config: Any, key: list[str]) -> list[str]:
    """Return the dotted keys that a key matches: every entry of a list, unless the key has the index.

    A word on its way becomes a mapping, to which the rest of the key can be added: `py3langid` is `{name: py3langid}`.
    """
    kind = schema
    for depth, part in enumerate(key):
        path = ".".join(key[:depth])
        node = OmegaConf.select(config, path, throw_on_resolution_failure=False) if path else config
        if OmegaConf.is_list(node) and not part.isdigit():
            if not node:
                raise ConfigurationError(
                    f"argument '{'.'.join(key)}=...': {path} has no entry yet; give {path}=[{{...}}]"
                )
            listed = [[*key[:depth], str(index), *key[depth:]] for index in range(len(node))]
            return [dotted for entry in listed for dotted in _expand_key(schema, config, entry)]
        if path and isinstance(node, str) and (word := word_key(kind)) is not None:
            OmegaConf.update(config, path, {word: node}, merge=False)
        absent = node is None or (OmegaConf.is_dict(node) and part not in node)
        if absent and depth + 1 < len(key) and (default := default_of(kind, part)) is not None:
            OmegaConf.update(config, ".".join(key[: depth + 1]), default, merge=False)
        kind = below(kind, part)
    return [".".join(key)]


def _apply(schema: Any, config: Any, key: str, text: str) -> None:
    above, _, last = key.rpartition(".")
    outer = schema
    for part in above.split(".") if above else ():
        outer = below(outer, part)
    value = parse_word(below(outer, last), text)
    entries: Any = OmegaConf.select(config, above) if above else None
    if value is None and maps_names(outer) and OmegaConf.is_dict(entries):
        if last not in entries:
            known = ", ".join(map(str, entries)) or "none"
            raise ConfigurationError(f"argument '{key}=null': there is no '{last}' to remove; {above} has: {known}")
        del entries[last]
        return
    # What the file has there is replaced: a reference in it that leads nowhere does not matter.
    before = OmegaConf.select(config, key, throw_on_resolution_failure=False)
    if OmegaConf.is_dict(before):
        value = merge(below(outer, last), OmegaConf.to_container(before), value)
    OmegaConf.update(config, key, value, merge=False)


def merge(kind: Any, before: Any, value: Any) -> Any:
    """Return a value of type `kind` merged over the one before it, if both are mappings of keys.

    A mapping that chooses an algorithm by its `name`, or another `family` of models, replaces the one before it.
    """
    if not isinstance(before, Mapping) or not isinstance(value, Mapping) or "name" in value or maps_names(kind):
        return value
    if "family" in before and value.get("family", before["family"]) != before["family"]:
        return value
    return {**before, **{key: merge(below(kind, key), before.get(key), item) for key, item in value.items()}}
