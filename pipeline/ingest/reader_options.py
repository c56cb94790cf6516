"""Select and check reader options, which a recipe sets among the keys of an input."""

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import Field, fields
from typing import Any

from clozeline.configuration.config import validate
from clozeline.configuration.words_elsewhere import translate_key
from clozeline.errors import ConfigurationError
from clozeline.pipeline.registries import READERS


def _reader_options(reader: str) -> dict[str, Field[Any]]:
    return {option.name: option for option in fields(READERS.load_class(reader).Options)}


def select_options(reader: str, values: Mapping[str, object]) -> dict[str, Any]:
    """Return the values that are options of a reader; null means its default."""
    known = _reader_options(reader)
    return {key: value for key, value in values.items() if key in known and value is not None}


def check_options(
    values: Mapping[str, object], readers: Iterable[str] | None, keys: Collection[str] = ()
) -> None:
    """Check the reader options of an input.

    An option with its default value is always valid, because resolved recipes may list every option
    for every input. `readers` are the readers of the input's files; None if not known yet, so that
    options of any reader are valid. `keys` of the input itself are suggested for a misspelled one.

    Raises:
        ConfigurationError: no reader has an option, or a value is invalid.
    """
    if not values and readers is None:
        return  # no reader needs to be imported

    candidates = sorted(READERS.available() if readers is None else readers)
    known = {key for reader in candidates for key in _reader_options(reader)}

    for key in sorted(values.keys() - known):
        value = values[key]
        all_options = map(_reader_options, READERS.available())
        if value is None or any(
            key in options and options[key].default == value for options in all_options
        ):
            continue

        every_key = sorted({*known, *keys})
        near = difflib.get_close_matches(key, every_key, n=1)
        spelled = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(every_key)}"
        whose = (
            "no reader has it"
            if readers is None
            else f"not an option of the reader {', '.join(candidates)}"
        )

        raise ConfigurationError(
            f"unknown key '{key}' ({whose}); {translate_key(key, every_key) or spelled}"
        )

    for reader in candidates if readers is not None else ():
        validate(
            READERS.load_class(reader).Options, select_options(reader, values), f"reader {reader}"
        )
