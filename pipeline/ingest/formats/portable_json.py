"""JSON that every parser accepts, for the fields of a record without a column of their own."""

import json
from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from typing import Any, Final

from clozeline.pipeline.ingest.documents.document import RECORD_ID

_MOST_EXTRA_BYTES: Final = 1 << 16
"""Maximum length of the `extra` of a record as JSON."""
_SAFE_INTEGER: Final = 2**63
"""Smallest positive integer that does not fit into 64 bits."""


def to_portable_json(value: object) -> Any:
    """Return the value as JSON that every parser accepts.

    It has no NaN, no integer above 64 bits, and no lone surrogate. Bytes are UTF-8, or else
    become hexadecimal digits.
    """
    if isinstance(value, Mapping):
        return {
            repair_surrogates(str(name)): to_portable_json(item) for name, item in value.items()
        }

    if isinstance(value, (list, tuple)):
        return [to_portable_json(item) for item in value]
    if isinstance(value, str):
        return repair_surrogates(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    if value is None or (isinstance(value, int) and abs(value) < _SAFE_INTEGER):
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    return str(value)[:1000]


def repair_surrogates(text: str) -> str:
    r"""Join surrogate pairs and replace lone surrogates (`\ud800` in JSON).

    Arrow requires valid Unicode.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def limit_extra(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields as JSON; if it is too long, `dropped` and the id alone."""
    kept = {name: fields[name] for name in (RECORD_ID,) if fields.get(name) is not None}
    for candidate in (fields, {"dropped": True, **kept}):
        with suppress(RecursionError, ValueError):
            portable: dict[str, Any] = to_portable_json(candidate)
            if len(json.dumps(portable)) <= _MOST_EXTRA_BYTES:
                return portable
    return {"dropped": True}


def _parse_integer(digits: str) -> Any:
    """Return an integer; 20 or more digits stay text, because no column type holds them."""
    return int(digits) if len(digits.removeprefix("-")) < 20 else digits


# `json.loads` would create one per line
JSON_DECODER: Final = json.JSONDecoder(parse_int=_parse_integer)
