"""Turn rows of named fields into records, for the readers of JSON and of tables."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import isfinite
from typing import Any, Final

from clozeline.configuration.config import config_class
from clozeline.pipeline.ingest.documents.document import FLAG_REPLACEMENTS
from clozeline.pipeline.ingest.readers import Counted, RawRecord

FIELD_REASONS: Final = ("no_text", "empty", "text_type", "bad_utf8")
_TYPES: Final = {int: "a number", float: "a number", bool: "a truth value", list: "a list", dict: "an object"}
_EXTRA_BYTES: Final = 1 << 16
_NAMES: Final = 10
_NAME_CHARACTERS: Final = 40
_SAFE_INTEGER: Final = 2**63


@config_class
class FieldOptions:
    """Names of the fields; other fields go to `extra`."""

    text_key: str = "text"
    """field with the text"""
    url_key: str = "url"
    """field with the URL, if any"""


def make_record(
    row: Mapping[str, Any], options: FieldOptions, kind: str, locator: int, length: int
) -> RawRecord | Counted:
    """Return the record of a row, or the reason why its text is missing, empty or not text."""
    text = row.get(options.text_key)
    if text is None:
        why = f"{options.text_key!r} is null" if options.text_key in row else explain_missing(options.text_key, row)
        return Counted("malformed", "no_text", locator, why)
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError:
            return Counted("malformed", "bad_utf8", locator)
    if not isinstance(text, str):
        why = f"{options.text_key!r} is {_TYPES.get(type(text), 'no text')}"
        return Counted("malformed", "text_type", locator, why)
    if not text or text.isspace():
        return Counted("malformed", "empty", locator)
    repaired = _repair(text)
    flags = 0 if repaired is text else FLAG_REPLACEMENTS
    url = row.get(options.url_key)
    url = _repair(url) if isinstance(url, str) and url else None
    others = dict(row)
    del others[options.text_key]
    others.pop(options.url_key, None)
    return RawRecord(locator, kind, length, repaired, False, url, None, flags, None, _keep_fields(others))


def _keep_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields as JSON, or a mark that they were dropped because their JSON takes too many bytes."""
    with suppress(RecursionError, ValueError):
        plain: dict[str, Any] = _to_json(fields)
        if len(json.dumps(plain)) <= _EXTRA_BYTES:
            return plain
    return {"dropped": True}


def explain_missing(text_key: str, names: Iterable[str]) -> str:
    """Return a message that the text key is not among the names of a row or table."""
    keys = sorted(str(name)[:_NAME_CHARACTERS] for name in names)
    shown = ", ".join(keys[:_NAMES]) + (f" and {len(keys) - _NAMES} more" if len(keys) > _NAMES else "")
    return f"no {text_key!r} among the keys: {shown or 'none'}"


def explain_unusable(text_key: str, names: list[str]) -> str:
    """Return a message why a table with these columns has no usable text; "" if it has."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1 and name)
    if twice:
        return f"two columns have the name {twice[0]!r}; rename one"
    return "" if text_key in names else explain_missing(text_key, names)


def _repair(text: str) -> str:
    r"""Join surrogate pairs and replace lone surrogates (JSON's `\ud800`): Arrow requires valid Unicode."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _to_json(value: Any) -> Any:
    """Return the value in a form that every JSON parser accepts: no NaN, 65-bit integer or lone surrogate."""
    if isinstance(value, Mapping):
        return {_repair(str(name)): _to_json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    if isinstance(value, str):
        return _repair(value)
    if value is None or (isinstance(value, int) and abs(value) < _SAFE_INTEGER):
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    return str(value)[:1000]


def parse_integer(digits: str) -> Any:
    """Return an integer; one with 20 digits or more, which no column holds, stays text."""
    return int(digits) if len(digits) < 20 else digits
