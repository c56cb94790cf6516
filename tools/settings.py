"""Read settings of a tool from `key=value` words, validated by a schema and listed in `--help`."""

from collections.abc import Sequence
from dataclasses import fields
from typing import TypeVar

from clozeline.configuration.config import describe, validate
from clozeline.configuration.overrides import override
from clozeline.tools.command import Arguments

S = TypeVar("S")

_ORIGIN = "command line"


def add_settings(parser: Arguments, *schemas: type, help_text: str = "settings, listed below") -> None:
    """Add the words, as `options.overrides`, and a list of all keys of the schemas at the end of the help."""
    parser.add_argument("overrides", nargs="*", metavar="key=value", help=help_text)
    keys: dict[str, list[str]] = {}
    for key, *rest in (described for schema in schemas for described in describe(schema)):
        keys.setdefault(key, rest)
    listed = (f"  {key}: {kind} = {default}: {text}" for key, (kind, default, text) in keys.items())
    parser.epilog = "\n".join(("keys (key: type = default: meaning):", *listed))


def settings_of(schema: type[S], words: Sequence[str]) -> S:
    """Return the settings given by `key=value` words, or raise ConfigurationError for a wrong key or value."""
    settings: S = validate(schema, override(schema, {}, words, _ORIGIN), _ORIGIN)
    return settings


def split_settings(schema: type[S], words: Sequence[str]) -> tuple[S, list[str]]:
    """Return the settings among `key=value` words, and the words with other keys, for another program."""
    keys = {field.name for field in fields(schema)}  # type: ignore[arg-type]
    own = [word for word in words if word.partition("=")[0] in keys]
    return settings_of(schema, own), [word for word in words if word not in own]
