"""Options of readers: a recipe gives them beside the keys of an input, and the reader alone declares them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.registry import find, names

FILE: Final = {"file": True}
"""Metadata of an option that names a further file, which the reader reads beside each file of the input."""

_READERS = "clozeline.pipeline.ingest.readers"


def _known(reader: str) -> set[str]:
    return {option.name for option in fields(find(_READERS, reader).Options)}


def _asks_nothing(key: str, value: Any) -> bool:
    """Return whether an option has a default value: resolved recipes may list every option for every input."""
    options = (field for reader in names(_READERS) for field in fields(find(_READERS, reader).Options))
    return value is None or any(field.name == key and field.default == value for field in options)


def options_of(reader: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the given options that a reader has. A null takes the reader's default."""
    known = _known(reader)
    return {key: value for key, value in given.items() if key in known and value is not None}


def other_files(reader: str, given: Mapping[str, Any]) -> dict[str, Path]:
    """Return the further files that a reader reads, by the option that names each."""
    options = [option.name for option in fields(find(_READERS, reader).Options) if option.metadata.get("file")]
    return {name: Path(given[name]) for name in options if given.get(name)}


def check_options(given: Mapping[str, Any], readers: Iterable[str] | None, keys: Collection[str] = ()) -> None:
    """Check options that are given for an input.

    Args:
        given: options by name.
        readers: readers of the input's files; None: not known yet, so an option of any reader will do.
        keys: keys of the input itself, which a misspelled one may mean.

    Raises:
        ConfigurationError: none of the readers has an option of this name, unless its value is a default; or a value
            is wrong for a reader.
    """
    found = sorted(names(_READERS) if readers is None else readers)
    known = {key for reader in found for key in _known(reader)}
    for key in sorted(key for key in given.keys() - known if not _asks_nothing(key, given[key])):
        near = difflib.get_close_matches(key, sorted({*known, *keys}), n=1)
        whose = "no reader has it" if readers is None else f"not an option of the reader {', '.join(found)}"
        raise ConfigurationError(f"unknown key '{key}' ({whose}){f'; did you mean {near[0]!r}?' if near else ''}")
    for reader in found if readers is not None else ():
        validate(find(_READERS, reader).Options, options_of(reader, given), f"reader {reader}")
