"""Overrides of the command line: `key=value` on top of what a file holds.

A mapping is merged into the one that the file has, with two exceptions that replace it: a mapping with a `name`, which
chooses an algorithm, and a mapping whose keys are names, such as that of `model.heads`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pipeline.configuration.schema import below, maps_names
from pipeline.configuration.strict_yaml import parse_yaml
from pipeline.errors import ConfigurationError

__all__ = ["override"]


def override(schema: Any, data: dict[str, Any], overrides: Sequence[str], where: str) -> Any:
    """Return the data with overrides applied, in their order, and references resolved.

    Args:
        schema: config class of the data.
        data: content of the file.
        overrides: `a.b=value`; the value is read as YAML. `a.b=null` removes an entry of a mapping of names.
        where: the file, for messages.

    Raises:
        ConfigurationError: an override is not `key=value`, or names no place in the data.
    """
    try:
        config = OmegaConf.create(data)
        for item in overrides:
            key, text = _split(item)
            _apply(schema, config, key, _value(text))
        return OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigurationError(f"{where}: {error}") from error


def _split(item: str) -> tuple[str, str]:
    key, equals, text = item.partition("=")
    if not equals or not key:
        raise ConfigurationError(f"argument {item!r}: expected key=value, for example output=runs/first")
    if not text:  # a variable of the shell without a value; an empty path would be the working directory
        raise ConfigurationError(f"argument {item!r}: expected a value; {key}=null is none, {key}='\"\"' no text")
    return key, text


def _value(text: str) -> Any:
    try:
        return parse_yaml(text)
    except yaml.YAMLError:
        return text  # a glob such as *.warc.gz is not YAML, but a good string


def _apply(schema: Any, config: Any, key: str, value: Any) -> None:
    above, _, last = key.rpartition(".")
    outer = schema
    for part in above.split(".") if above else ():
        outer = below(outer, part)
    entries: Any = OmegaConf.select(config, above) if above else None
    if value is None and maps_names(outer) and OmegaConf.is_dict(entries):
        if last not in entries:
            known = ", ".join(map(str, entries)) or "none"
            raise ConfigurationError(f"argument '{key}=null': there is no '{last}' to remove; {above} has: {known}")
        del entries[last]
        return
    before = OmegaConf.select(config, key)
    if OmegaConf.is_dict(before):
        value = _merged(below(outer, last), OmegaConf.to_container(before), value)
    OmegaConf.update(config, key, value, merge=False)


def _merged(kind: Any, before: Any, value: Any) -> Any:
    if not isinstance(before, Mapping) or not isinstance(value, Mapping) or "name" in value or maps_names(kind):
        return value
    return {**before, **{key: _merged(below(kind, key), before.get(key), item) for key, item in value.items()}}
